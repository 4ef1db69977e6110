// Dead letters: lists, groups, and changes of single ones. replays.cpp has those of many.
#include "server/api/change.hpp"

namespace dovetail::server::api {
namespace {

constexpr std::size_t most_ids = 1'000;
constexpr int letters_grouped = 10'000;

DeadLetterFilter filter_of_letters(const Request& request) {
  return {.topic = request.query_value("topic"),
          .failed_after = time_of(request, "failed_after"),
          .failed_before = time_of(request, "failed_before")};
}

MessageList page_of_letters(WorkQueue& queue, const DeadLetterFilter& filter,
                            const MessagePage& page) {
  return queue.messages({.state = MessageState::failed,
                         .topic = filter.topic,
                         .finished_after = filter.failed_after,
                         .finished_before = filter.failed_before},
                        page);
}

/// Those with exactly this error. It reads up to letters_grouped dead letters, in pages that have
/// room in the answer: so its cursor is that of the last page.
MessageList letters_with_error(WorkQueue& queue, const DeadLetterFilter& filter,
                               const std::string& error, MessagePage page) {
  MessageList found;
  const auto wanted = static_cast<std::size_t>(page.size);
  for (int read = 0; read < letters_grouped; read += page.size) {
    page.size = static_cast<int>(wanted - found.messages.size());
    auto list = page_of_letters(queue, filter, page);
    for (auto& each : list.messages) {
      if (each.stored.last_error == error) found.messages.push_back(std::move(each));
    }
    found.next = page.cursor = list.next;
    if (list.cut) found.cut = true;
    if (!list.next || list.cut || found.messages.size() == wanted) return found;
  }
  found.cut = true;
  return found;
}

/// Newest first. It stops at the scan limit of a list, however rare the topic is.
Response list_dead_letters(const Api& api, const Request& request) {
  require_query(request,
                {"queue", "topic", "error", "failed_after", "failed_before", "limit", "cursor"});
  const auto platform = database_of(api, request);
  auto& queue = queue_of(*platform, request);
  const auto filter = filter_of_letters(request);
  const MessagePage page{.cursor = request.query_value("cursor"), .size = limit_of(request)};
  const auto error = request.query_value("error");
  const auto list = error ? letters_with_error(queue, filter, *error, page)
                          : page_of_letters(queue, filter, page);
  const PayloadView view{.redact = &api.options.redact};
  auto letters = ordered_json::array();
  for (const auto& each : list.messages) letters.push_back(message_json(each.stored, view));
  return answer({{"dead_letters", std::move(letters)},
                 {"cut", list.cut},
                 {"next", list.next ? ordered_json(*list.next) : nullptr}});
}

Response list_groups(const Api& api, const Request& request) {
  require_query(request, {"queue", "topic", "failed_after", "failed_before", "limit"});
  const auto platform = database_of(api, request);
  return answer(json::to_json(
      queue_of(*platform, request)
          .dead_letter_summary(filter_of_letters(request),
                               {.letters = letters_grouped, .groups = limit_of(request)})));
}

struct ChosenLetters {
  std::string queue{};
  std::vector<MessageId> ids{};
};

ChosenLetters chosen_letters(Change& change) {
  ChosenLetters chosen{.queue = change.body().text("queue").value_or("outbox")};
  for (const auto& text : change.body().texts("message_ids"))
    chosen.ids.push_back(parse_id<MessageId>("message_ids", text));
  if (chosen.ids.empty() || chosen.ids.size() > most_ids) {
    throw std::invalid_argument("message_ids must have 1 to " + std::to_string(most_ids) +
                                " ids; use /api/v1/dead-letters/replays for more");
  }
  return chosen;
}

ordered_json ids_json(const std::vector<MessageId>& ids) {
  auto texts = ordered_json::array();
  for (const auto& id : ids) texts.push_back(id.to_string());
  return texts;
}

Response change_letters(Change& change, bool purge) {
  const auto chosen = chosen_letters(change);
  auto& queue = queue_of(change.platform(), chosen.queue);
  change.describe(chosen.queue, {{"message_ids", ids_json(chosen.ids)}});
  return change.make([&] {
    const auto count = purge ? queue.purge_dead_letters(chosen.ids) : queue.replay(chosen.ids);
    return Changed{.answer = {{purge ? "purged" : "replayed", count}, {"asked", chosen.ids.size()}},
                   .count = static_cast<std::int64_t>(count)};
  });
}

}  // namespace

void add_dead_letter_routes(RouteTable& routes, const Api& api) {
  add_read(routes, "/api/v1/dead-letters",
           [api](const Request& request) { return list_dead_letters(api, request); });
  add_read(routes, "/api/v1/dead-letters/groups",
           [api](const Request& request) { return list_groups(api, request); });
  add_change(routes, api,
             {.pattern = "/api/v1/dead-letters/replay",
              .action = "dead_letters.replay",
              .handler = [](Change& change) { return change_letters(change, false); }});
  add_change(routes, api,
             {.pattern = "/api/v1/dead-letters/purge",
              .role = ServerRole::admin,
              .action = "dead_letters.purge",
              .handler = [](Change& change) { return change_letters(change, true); }});
}

}  // namespace dovetail::server::api
