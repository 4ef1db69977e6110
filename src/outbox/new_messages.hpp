// Messages on their way into the store: the rules that each must meet, and how those are stored that have met them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "dovetail/outbox.hpp"
#include "dovetail/transaction.hpp"
#include "storage/join_store.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::outbox {

/// Throws std::invalid_argument, with the limit in the text.
void require_topic(std::string_view topic);

/// Throws std::out_of_range.
void require_delay(std::chrono::milliseconds delay);

/// Throws InvalidOperation when one of them does not exist.
void require_joins(storage::Database& database, storage::WriteSession& session,
                   std::span<const JoinId> joins);

/// Attaches messages that this transaction has enqueued, or found there. Throws InvalidOperation when that cannot be.
void attach(storage::Database& database, storage::WriteSession& session,
            std::span<const storage::Membership> members);

/// What messages of every queue have.
struct MessageParts {
  std::string_view topic;
  std::string_view payload;
  const std::optional<std::string>& correlation_id;
  std::optional<WallTime> due_at;
  const Headers& headers;
  std::optional<WallTime> expires_at;
  int priority = 0;
};

/// Checks every limit; what it returns, with an id of its own, points into `parts`.
storage::NewMessage checked(const MessageParts& parts, const OutboxOptions& options);

/// Checks every limit; what it returns points into `request`.
storage::NewMessage checked(const EnqueueRequest& request, const OutboxOptions& options);
std::vector<storage::NewMessage> checked(std::span<const EnqueueRequest> requests,
                                         const OutboxOptions& options);

/// The end of a borrowed transaction is not ours to see.
storage::Announcement announcement_in(const Transaction& transaction);

/// Stores messages, which checked() made of the requests, and attaches them to their joins.
std::vector<Enqueued> store(storage::Database& database, storage::WriteSession& session,
                            std::span<const EnqueueRequest> requests,
                            std::span<const storage::NewMessage> messages, bool repeated,
                            storage::Announcement announcement);

}  // namespace dovetail::outbox
