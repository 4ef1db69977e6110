// Checks of the inbox's arguments. Each throws std::invalid_argument or std::out_of_range, with the
// limit in the text.
#pragma once

#include <chrono>
#include <string_view>

#include "dovetail/inbox.hpp"
#include "storage/inbox_store.hpp"

namespace dovetail::inbox {

/// The reason of a dead letter whose lease expired at its last attempt.
inline constexpr std::string_view lost_last_attempt = "the lease expired on the last attempt";

storage::InboxKey checked_key(std::string_view source, std::string_view message_id);
storage::InboxKey checked_key(const InboxTicket& ticket);
void require_hash(ContentHash hash);
/// Checks every limit. The arrival points into `request`.
storage::InboxArrival checked_arrival(const InboxRequest& request, const QueueOptions& options);
void require_max_attempts(int attempts);
void require_lease(std::chrono::milliseconds lease);
void require_filter(const InboxDeadLetterFilter& filter);
/// Checks that `error` is UTF-8, and cuts it to the length that is stored.
std::string_view checked_error(const char* what, std::string_view error);

}  // namespace dovetail::inbox
