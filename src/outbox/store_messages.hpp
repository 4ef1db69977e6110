// Stores checked messages in the outbox, and attaches them to their joins.
#pragma once

#include <span>
#include <vector>

#include "dovetail/outbox.hpp"
#include "storage/join_store.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::outbox {

/// Throws InvalidOperation when one of the joins does not exist.
void require_joins(storage::Database& database, storage::WriteSession& session,
                   std::span<const JoinId> joins);

/// Attaches messages that this transaction has enqueued or found. Throws InvalidOperation when a
/// join or a message does not exist.
void attach(storage::Database& database, storage::WriteSession& session,
            std::span<const storage::Membership> members);

/// Stores the messages that checked() made of the requests, and attaches them to their joins.
std::vector<Enqueued> store(storage::Database& database, storage::WriteSession& session,
                            std::span<const EnqueueRequest> requests,
                            std::span<const storage::NewMessage> messages, bool repeated);

}  // namespace dovetail::outbox
