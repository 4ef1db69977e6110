// The transactional outbox: messages that are stored with your own rows and handled later.
//
// Guarantees
//   * A message enqueued through a Transaction exists exactly if that transaction commits. One enqueued
//   without is
//     durable when the call returns.
//   * Exactly what claim() returns is leased to the caller, until the lease ends by the database's clock.
//   * At most one ack takes effect per claim. Once a lease ran out, its owner can change nothing: the message
//   is
//     free for the next claim, with a new epoch and one more attempt on its account.
//   * Bad arguments are refused before any I/O.
// Not guaranteed
//   * Order. Messages that are due are claimed roughly oldest first; nothing may depend on it.
//   * Exactly-once delivery. A worker that dies after its work and before its ack makes the message come
//   again.
//
// Threads: an Outbox may be shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"
#include "dovetail/log.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

namespace storage {
class Database;
struct NewMessage;
}  // namespace storage

enum class OutboxStatus : std::uint8_t { ready = 0, in_progress = 1, done = 2, failed = 3 };

[[nodiscard]] std::string_view to_string(OutboxStatus status);

/// What to enqueue. Texts are UTF-8 without NUL.
struct EnqueueRequest {
  std::string topic{};               ///< 1 to 255 characters, case-sensitive.
  std::string payload{};             ///< Any text, also empty; its format is the handler's business.
  std::optional<WallTime> due_at{};  ///< Not claimed before; absent or past means at once.
  std::optional<std::string> correlation_id{};  ///< Up to 255 characters; empty means none.
  /// Your own id makes a repeated enqueue harmless: the second one stores nothing.
  std::optional<OutboxMessageId> message_id{};
};

struct OutboxMessage {
  OutboxWorkItemId id{};
  OutboxMessageId message_id{};
  std::string topic{};
  std::string payload{};
  std::optional<std::string> correlation_id{};
  WallTime created_at{};  ///< By the database's clock.
  WallTime due_at{};
  int attempts = 0;  ///< Tries that have failed so far.
};

/// The right to ack one message: valid for its owner, until the lease ends.
struct Claim {
  OutboxWorkItemId id{};
  std::int64_t epoch = 0;  ///< Grows with every claim of the message: a fencing token.

  friend bool operator==(const Claim&, const Claim&) = default;
};

struct ClaimedMessage {
  OutboxMessage message{};
  Claim claim{};
  WallTime lease_until{};  ///< By the database's clock.
};

struct ClaimRequest {
  OwnerToken owner{};
  int batch_size = 50;                      ///< 1 to 10,000.
  std::chrono::milliseconds lease{30'000};  ///< 1 ms to 24 h.
  std::stop_token stop{};
};

/// How many messages are in each state. Counting stops at `counted_up_to`.
struct OutboxCounts {
  std::int64_t ready = 0;      ///< Due now.
  std::int64_t scheduled = 0;  ///< Ready, but not due yet.
  std::int64_t in_progress = 0;
  std::int64_t done = 0;
  std::int64_t failed = 0;
  std::int64_t counted_up_to = 0;
  std::optional<std::chrono::microseconds>
      oldest_due{};  ///< How long the oldest due message has been waiting.
};

struct OutboxOptions {
  std::size_t max_payload_bytes = 1 << 20;  ///< At most 64 MiB.
};

class Outbox {
 public:
  Outbox(storage::Database& database, OutboxOptions options, Logger log);

  /// Stores a message in a transaction of its own; durable on return.
  ///
  /// Safe to repeat with the same `message_id` after an Error that is_in_doubt().
  OutboxMessageId enqueue(const EnqueueRequest& request);

  /// Stores a message in your transaction.
  OutboxMessageId enqueue(Transaction& transaction, const EnqueueRequest& request);

  /// Stores many at once over the engine's bulk path, all or none; ids in the order of the requests.
  std::vector<OutboxMessageId> enqueue_many(std::span<const EnqueueRequest> requests);
  std::vector<OutboxMessageId> enqueue_many(Transaction& transaction,
                                            std::span<const EnqueueRequest> requests);

  /// Leases up to `batch_size` due messages; an empty answer means that nothing is due.
  ///
  /// Throws Error when the database gave no answer; messages may then be leased unseen, and come back after
  /// `lease`.
  [[nodiscard]] std::vector<ClaimedMessage> claim(const ClaimRequest& request);

  /// Marks claimed messages as done. Claims that are unknown, of another owner, of an older epoch or past
  /// their lease are ignored. Answers how many took effect.
  std::size_t ack(OwnerToken owner, std::span<const Claim> claims);

  [[nodiscard]] OutboxCounts counts();

 private:
  void log_enqueued(const storage::NewMessage& message) const;

  storage::Database* database_;
  OutboxOptions options_;
  Logger log_;
};

}  // namespace dovetail
