// The event store: streams, their events, and the feed of all events.
#include "server/api/change.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

constexpr int positions_scanned = 10'000;

ordered_json events_json(const std::vector<Event>& events, const PayloadView& view) {
  auto values = ordered_json::array();
  for (const auto& event : events) {
    auto value = json::to_json(event);
    view.apply(value, "data");
    view.apply(value, "metadata");
    values.push_back(std::move(value));
  }
  return values;
}

Response list_event_streams(const Api& api, const Request& request) {
  require_query(request, {"prefix", "limit", "cursor"});
  const auto limit = limit_of(request);
  EventStreamPage page{.prefix = request.query_value("prefix").value_or(""), .size = limit + 1};
  if (const auto after = cursor_values(request, 1)) page.after = cursor_text(after->at(0));
  auto list = database_of(api, request)->events().streams(page);
  const bool more = drop_last(list, limit);
  return answer({{"streams", json::to_json_array(list)},
                 {"next", more ? ordered_json(cursor_of({list.back().key})) : nullptr}});
}

Response show_event_stream(const Api& api, const Request& request) {
  require_query(request, {});
  const auto& key = request.parameter("stream");
  const auto found = database_of(api, request)->events().find(key);
  if (!found) throw Problem(404, "there is no event stream \"" + key + "\"");
  return answer(json::to_json(*found));
}

Response list_events(const Api& api, const Request& request) {
  require_query(request, {"payload", "backwards", "from", "limit", "cursor"});
  const auto view = payload_view(api, request);
  const auto limit = limit_of(request);
  EventPage page{.backwards = flag_of(request, "backwards"), .size = limit + 1};
  if (const auto from = number_of(request, "from")) page.from = *from;
  if (const auto from = cursor_values(request, 1)) page.from = cursor_number(from->at(0));
  auto list = database_of(api, request)->events().read(request.parameter("stream"), page);
  ordered_json next;
  if (list.size() > static_cast<std::size_t>(limit)) {
    next = cursor_of({list.back().version});
    list.pop_back();
  }
  return answer({{"events", events_json(list, view)}, {"next", std::move(next)}});
}

Response read_feed(const Api& api, const Request& request) {
  require_query(request, {"payload", "after", "type", "prefix", "limit"});
  const auto view = payload_view(api, request);
  FeedPage page{.after = number_of(request, "after").value_or(0),
                .size = limit_of(request),
                .scan = positions_scanned};
  if (const auto type = request.query_value("type")) page.types.push_back(*type);
  if (const auto prefix = request.query_value("prefix")) page.prefixes.push_back(*prefix);
  const auto feed = database_of(api, request)->events().read_all(page);
  return answer({{"events", events_json(feed.events, view)}, {"upto", feed.upto}});
}

}  // namespace

void add_event_routes(RouteTable& routes, const Api& api) {
  const std::string one = "/api/v1/event-streams/{stream}";
  add_read(routes, "/api/v1/event-streams",
           [api](const Request& request) { return list_event_streams(api, request); });
  add_read(routes, one, [api](const Request& request) { return show_event_stream(api, request); });
  add_read(routes, one + "/events",
           [api](const Request& request) { return list_events(api, request); });
  add_read(routes, "/api/v1/event-feed",
           [api](const Request& request) { return read_feed(api, request); });
}

}  // namespace dovetail::server::api
