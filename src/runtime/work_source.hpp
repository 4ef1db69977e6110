// The source of a dispatcher's work: it leases messages, delivers them, and settles them.
//
// QueueSource implements it for queues. A dispatcher knows only this interface.
//
// Threads: from any.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "dovetail/queue.hpp"
#include "runtime/delivery.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::runtime {

/// One round trip of a dispatcher.
struct WorkRequest {
  std::span<const storage::Settlement> settlements{};
  std::span<const storage::ClaimOrder> claims{};
  /// Settles only messages whose settlement needs no lock that another transaction holds.
  bool careful = false;
  std::stop_token stop{};
};

struct WorkResult {
  std::size_t settled = 0;                ///< The number of settlements that took effect.
  std::vector<storage::Claimed> claimed;  ///< One for each claim of the request.
  std::optional<std::vector<MessageId>> settleable;  ///< Sorted. Absent: all of them.
};

class WorkSource {
 public:
  virtual ~WorkSource() = default;

  [[nodiscard]] virtual OwnerToken owner() const = 0;
  /// Settles first, then claims. A settlement that has to wait for a lock is left out after a short
  /// wait, and `settleable` does not contain it.
  virtual WorkResult settle_and_claim(const WorkRequest& request) = 0;
  /// Returns the messages whose leases are still held.
  virtual std::vector<MessageId> renew(std::span<const Claim> claims,
                                       std::chrono::milliseconds lease,
                                       const std::stop_token& stop) = 0;
  /// Records that the owner of these messages is alive: they did not lose their leases in a crash.
  virtual void reset_lost_leases(std::span<const MessageId> ids, const std::stop_token& stop) = 0;
  /// Takes back the last lost lease of these messages, and its attempt: no handler began them.
  virtual void uncharge(std::span<const MessageId> ids, const std::stop_token& stop) = 0;
  /// Calls the handler. Returns how to settle the message, or nullopt if the handler's own
  /// transaction has settled it or the lease was lost.
  virtual std::optional<storage::Settlement> deliver(Delivery& delivery) = 0;
};

}  // namespace dovetail::runtime
