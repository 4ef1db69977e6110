#include "inbox/rules.hpp"

#include <stdexcept>
#include <string>

#include "core/require.hpp"
#include "core/text.hpp"
#include "queue/new_messages.hpp"

namespace dovetail::inbox {
namespace {

constexpr std::size_t max_source_characters = 64;
constexpr std::size_t max_message_id_characters = 255;
constexpr std::size_t hash_bytes = 32;
constexpr std::size_t max_error_bytes = 2048;

void require_word(const char* what, std::string_view word, std::size_t most) {
  if (word.empty()) throw std::invalid_argument(std::string{what} + " must not be empty");
  core::require_length(what, word, most);
}

}  // namespace

storage::InboxKey checked_key(std::string_view source, std::string_view message_id) {
  require_word("source", source, max_source_characters);
  require_word("message_id", message_id, max_message_id_characters);
  return {source, message_id};
}

storage::InboxKey checked_key(const InboxTicket& ticket) {
  if (ticket.owner.is_nil())
    throw std::invalid_argument("the ticket is of a message that was not started");
  return checked_key(ticket.source, ticket.message_id);
}

void require_hash(ContentHash hash) {
  if (!hash.empty() && hash.size() != hash_bytes) {
    throw std::invalid_argument("hash must have 32 bytes, got " + std::to_string(hash.size()));
  }
}

void require_max_attempts(int attempts) {
  if (attempts < 1) throw std::out_of_range("max_attempts must be at least 1");
}

void require_lease(std::chrono::milliseconds lease) {
  if (lease < std::chrono::milliseconds{10} || lease > std::chrono::hours{24}) {
    throw std::out_of_range("lease must be 10 ms to 24 h");
  }
}

std::string_view checked_error(const char* what, std::string_view error) {
  core::require_text(what, error);
  return core::trimmed(error, max_error_bytes);
}

void require_filter(const InboxDeadLetterFilter& filter) {
  if (filter.source) require_word("source", *filter.source, max_source_characters);
  if (filter.message_id) require_word("message_id", *filter.message_id, max_message_id_characters);
  if (filter.topic) queue::require_topic(*filter.topic);
  if (filter.failed_after) core::require_time("failed_after", *filter.failed_after);
  if (filter.failed_before) core::require_time("failed_before", *filter.failed_before);
}

}  // namespace dovetail::inbox
