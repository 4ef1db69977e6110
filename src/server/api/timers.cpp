// Timers.
#include "server/api/change.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

Response list_timers(const Api& api, const Request& request) {
  require_query(request, {"topic", "limit", "cursor"});
  const auto limit = limit_of(request);
  TimerPage page{.size = limit + 1};
  if (const auto after = cursor_values(request, 2)) {
    page.after_time = parse_time("cursor", cursor_text(after->at(0)));
    page.after_id = cursor_id<TimerId>(after->at(1));
  }
  auto list = database_of(api, request)->timers().list(request.query_value("topic"), page);
  ordered_json next;
  if (drop_last(list, limit)) {
    const auto& last = list.back();
    next = cursor_of({to_string(last.next_attempt_at.value_or(last.due_at)), last.id.to_string()});
  }
  return answer({{"timers", json::to_json_array(list)}, {"next", std::move(next)}});
}

Response show_timer(const Api& api, const Request& request) {
  require_query(request, {"payload"});
  const auto view = payload_view(api, request);
  const auto id = parse_id<TimerId>("timer_id", request.parameter("timer_id"));
  const auto found = database_of(api, request)->timers().find(id);
  if (!found) throw Problem(404, "there is no timer " + id.to_string());
  auto value = json::to_json(*found);
  value["payload"] = found->payload;
  view.apply(value, "payload");
  return answer(std::move(value));
}

Response schedule_timer(Change& change) {
  auto& body = change.body();
  TimerRequest timer;
  timer.topic = body.required_text("topic");
  timer.payload = body.text("payload").value_or("");
  timer.correlation_id = body.text("correlation_id");
  timer.unique_key = body.text("unique_key");
  for (const auto& [name, value] : body.text_map("headers")) timer.headers[name] = value;
  const auto due_at = body.time("due_at");
  const auto delay = body.number("delay_ms");
  if (due_at.has_value() == delay.has_value())
    throw std::invalid_argument("give due_at or delay_ms");
  if (due_at) timer.due_at = *due_at;
  if (delay) timer.delay = std::chrono::milliseconds{*delay};
  change.describe("timers/" + timer.topic);
  return change.make_in_transaction([&](Transaction& transaction) {
    const auto scheduled = change.platform().timers().schedule(transaction, timer);
    return Changed{.answer = {{"timer_id", scheduled.to_string()}, {"stored", scheduled.stored()}},
                   .count = scheduled.stored() ? 1 : 0,
                   .status = scheduled.stored() ? 201 : 200};
  });
}

Response cancel_timer(Change& change) {
  const auto id = parse_id<TimerId>("timer_id", change.request().parameter("timer_id"));
  change.describe(id.to_string());
  return change.make_in_transaction([&](Transaction& transaction) {
    const bool cancelled = change.platform().timers().cancel(transaction, id);
    return Changed{.answer = {{"timer_id", id.to_string()}, {"cancelled", cancelled}},
                   .count = cancelled ? 1 : 0};
  });
}

}  // namespace

void add_timer_routes(RouteTable& routes, const Api& api) {
  const std::string one = "/api/v1/timers/{timer_id}";
  add_read(routes, "/api/v1/timers",
           [api](const Request& request) { return list_timers(api, request); });
  add_read(routes, one, [api](const Request& request) { return show_timer(api, request); });
  add_change(routes, api,
             {.pattern = "/api/v1/timers", .action = "timer.schedule", .handler = schedule_timer});
  add_change(routes, api,
             {.pattern = one + "/cancel", .action = "timer.cancel", .handler = cancel_timer});
}

}  // namespace dovetail::server::api
