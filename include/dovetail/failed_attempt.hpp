// Failed attempts, as WorkQueue::find() returns them.
//
// Guarantees
//   * Every failed attempt is added to its message: attempts that are retried, the last one, and
//     lost leases. An enqueue, a claim and an ack of a message without failures neither read nor
//     write them.
//   * They stay with the message while it is retried, done, failed, and after a replay. They are
//     deleted with the message.
// Not guaranteed
//   * All of them: the newest `kept_failures` of each message are kept. The error of the last one
//     has up to 2 KiB, and the errors of the others 512 characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"

namespace dovetail {

inline constexpr int kept_failures = 10;

enum class FailureKind : std::uint8_t {
  failed,      ///< The handler failed, or its worker called abandon() or fail().
  lost_lease,  ///< The lease expired: the worker was killed, or too slow.
  expired,     ///< The message expired before it was handled; no attempt was charged.
};

[[nodiscard]] std::string_view to_string(FailureKind kind);
/// The kind of this name, or nullopt.
[[nodiscard]] std::optional<FailureKind> failure_kind(std::string_view name);

struct FailedAttempt {
  /// The number of attempts up to this one, including those before a replay.
  int attempt = 0;
  WallTime at{};  ///< By the database's clock. For a lost lease: when that was noticed.
  FailureKind kind = FailureKind::failed;
  std::optional<std::string> error{};
  std::optional<OwnerToken> owner{};  ///< The worker that had the message.
};

}  // namespace dovetail
