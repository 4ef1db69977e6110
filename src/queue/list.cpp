// Lists of messages in every state, and of topics.
#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "core/require.hpp"
#include "dovetail/queue.hpp"
#include "queue/new_messages.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"

namespace dovetail {
namespace {

constexpr int most_scanned = 100'000;
constexpr auto all_message_states = std::to_array<MessageState>(
    {MessageState::ready, MessageState::scheduled, MessageState::in_progress, MessageState::done,
     MessageState::failed, MessageState::paused});

void require_scan_limit(int scan_limit) {
  if (scan_limit < 1 || scan_limit > most_scanned) {
    throw std::out_of_range("scan_limit must be 1 to " + std::to_string(most_scanned) + ", got " +
                            std::to_string(scan_limit));
  }
}

void require_optional_time(const char* name, const std::optional<WallTime>& time) {
  if (time) core::require_time(name, *time);
}

void require_message_filter(const MessageFilter& filter) {
  if (filter.topic) queue::require_topic(*filter.topic);
  if (filter.correlation_id) core::require_length("correlation_id", *filter.correlation_id, 255);
  if (filter.stream) queue::require_stream(*filter.stream);
  require_optional_time("created_after", filter.created_after);
  require_optional_time("created_before", filter.created_before);
  require_optional_time("finished_after", filter.finished_after);
  require_optional_time("finished_before", filter.finished_before);
  const bool finished = filter.state == MessageState::done || filter.state == MessageState::failed;
  if (!finished && (filter.finished_after || filter.finished_before)) {
    throw std::invalid_argument("finished_after and finished_before need the state done or failed");
  }
}

/// A cursor begins with the list that it belongs to.
std::string list_name(const MessageFilter& filter) {
  return filter.state ? std::string{to_string(*filter.state)} : "all";
}

std::string cursor_of(const MessageFilter& filter, const storage::ListPlace& place) {
  return list_name(filter) + "." + std::to_string(place.lane) + "." + std::to_string(place.at) +
         "." + std::to_string(place.seq) + "." + (place.id ? place.id->to_string() : "");
}

[[noreturn]] void reject_cursor() {
  throw std::invalid_argument(
      "cursor is not the cursor of a page with this state: begin again without a cursor");
}

std::string_view next_part(std::string_view& rest) {
  const auto end = rest.find('.');
  if (end == std::string_view::npos) reject_cursor();
  const auto part = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return part;
}

std::int64_t cursor_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) reject_cursor();
  return number;
}

storage::ListPlace place_of(const MessageFilter& filter, std::string_view cursor) {
  if (next_part(cursor) != list_name(filter)) reject_cursor();
  storage::ListPlace place;
  place.lane = cursor_number(next_part(cursor));
  place.at = cursor_number(next_part(cursor));
  place.seq = cursor_number(next_part(cursor));
  // The times that the engines can store.
  constexpr std::int64_t last_time = 253'402'300'800'000'000;
  if (place.at < 0 || place.at > last_time) reject_cursor();
  if (!cursor.empty()) {
    place.id = Uuid::parse(cursor);
    if (!place.id) reject_cursor();
  }
  return place;
}

/// True if each message of the index that is read matches.
bool matches_all(const MessageFilter& filter) {
  const bool whole_index =
      !filter.state || filter.state == MessageState::done ||
      (filter.state == MessageState::failed && !filter.finished_after && !filter.finished_before);
  return whole_index && !filter.topic && !filter.correlation_id && !filter.stream &&
         !filter.created_after && !filter.created_before;
}

}  // namespace

std::string_view to_string(MessageState state) {
  switch (state) {
    case MessageState::ready:
      return "ready";
    case MessageState::scheduled:
      return "scheduled";
    case MessageState::in_progress:
      return "in_progress";
    case MessageState::done:
      return "done";
    case MessageState::failed:
      return "failed";
    case MessageState::paused:
      return "paused";
  }
  return "unknown";
}

std::optional<MessageState> message_state(std::string_view name) {
  for (const auto state : all_message_states) {
    if (to_string(state) == name) return state;
  }
  return std::nullopt;
}

MessageList WorkQueue::messages(const MessageFilter& filter, const MessagePage& page) {
  require_message_filter(filter);
  core::require_batch_size("size", page.size);
  require_scan_limit(page.scan_limit);
  // One more message shows whether there is a next page.
  storage::ListRequest request{.filter = filter, .size = page.size + 1};
  request.scan_limit = matches_all(filter) ? request.size : std::max(page.scan_limit, request.size);
  if (page.cursor) request.after = place_of(filter, *page.cursor);
  storage::ListResult found;
  database_->read(
      [&](storage::ReadSession& session) { found = operator_->list(session, request); });
  MessageList list{.messages = std::move(found.messages)};
  if (list.messages.size() > static_cast<std::size_t>(page.size)) {
    list.messages.pop_back();
    list.next = cursor_of(filter, found.places[list.messages.size() - 1]);
  } else if (found.read >= request.scan_limit) {
    list.cut = true;
    list.next = cursor_of(filter, found.last_read);
  }
  return list;
}

TopicList WorkQueue::topics(const TopicPage& page) {
  if (page.after) queue::require_topic(*page.after);
  core::require_batch_size("size", page.size);
  require_scan_limit(page.scan_limit);
  TopicList list;
  database_->read([&](storage::ReadSession& session) {
    auto [topics, read] = operator_->topics(session, page);
    list = {.topics = std::move(topics), .cut = read >= page.scan_limit};
  });
  return list;
}

}  // namespace dovetail
