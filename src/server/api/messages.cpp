// Messages in every state.
#include "server/api/change.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

MessageFilter filter_of(const Request& request) {
  MessageFilter filter{.topic = request.query_value("topic"),
                       .correlation_id = request.query_value("correlation_id"),
                       .stream = request.query_value("stream"),
                       .created_after = time_of(request, "created_after"),
                       .created_before = time_of(request, "created_before"),
                       .finished_after = time_of(request, "finished_after"),
                       .finished_before = time_of(request, "finished_before")};
  if (const auto state = request.query_value("state")) {
    filter.state = message_state(*state);
    if (!filter.state) {
      throw std::invalid_argument(
          "state must be ready, scheduled, in_progress, done, failed or paused, got \"" + *state +
          "\"");
    }
  }
  return filter;
}

Response list_messages(const Api& api, const Request& request) {
  require_query(request,
                {"queue", "state", "topic", "correlation_id", "stream", "created_after",
                 "created_before", "finished_after", "finished_before", "limit", "cursor"});
  const auto platform = database_of(api, request);
  const auto list = queue_of(*platform, request)
                        .messages(filter_of(request), {.cursor = request.query_value("cursor"),
                                                       .size = limit_of(request)});
  const PayloadView view{.redact = &api.options.redact};
  auto messages = ordered_json::array();
  for (const auto& each : list.messages) {
    auto value = message_json(each.stored, view);
    value["state"] = std::string{to_string(each.state)};
    messages.push_back(std::move(value));
  }
  return answer({{"messages", std::move(messages)},
                 {"cut", list.cut},
                 {"next", list.next ? ordered_json(*list.next) : nullptr}});
}

/// The stream, the job run and the joins that a message belongs to.
ordered_json belongs_to(Platform& platform, const std::string& queue, const StoredMessage& stored) {
  ordered_json value{{"stream", nullptr},
                     {"job_run_id", nullptr},
                     {"joins", ordered_json::array()},
                     {"awaited_join", nullptr}};
  if (stored.message.stream) value["stream"] = *stored.message.stream;
  if (queue != "outbox") return value;
  if (const auto run = Jobs::run_of(stored.message)) value["job_run_id"] = run->to_string();
  for (const auto join : platform.joins().joins_of(stored.message.message_id))
    value["joins"].push_back(join.to_string());
  if (const auto join = platform.joins().awaited_by(stored.message))
    value["awaited_join"] = join->to_string();
  return value;
}

/// The known times of a message, in their order.
ordered_json timeline_of(const StoredMessage& stored) {
  auto steps = ordered_json::array();
  const auto add = [&](const char* what, const std::optional<WallTime>& at) {
    if (at) steps.push_back({{"what", what}, {"at", to_string(*at)}});
  };
  add("created", stored.message.created_at);
  add("due", stored.message.due_at);
  add("next_attempt", stored.next_attempt_at);
  add(stored.status == MessageStatus::failed ? "failed" : "done", stored.processed_at);
  add("expires", stored.message.expires_at);
  return steps;
}

Response show_message(const Api& api, const Request& request) {
  require_query(request, {"queue", "payload"});
  const auto view = payload_view(api, request);
  const auto platform = database_of(api, request);
  const auto id = parse_id<MessageId>("message_id", request.parameter("message_id"));
  const auto asked = request.query_value("queue");
  for (const std::string name : {"outbox", "inbox", "timers"}) {
    if (asked && *asked != name) continue;
    const auto stored = queue_of(*platform, name).find(id);
    if (!stored) continue;
    auto value = message_json(*stored, view);
    value["queue"] = name;
    value["failures"] = json::to_json_array(stored->failures);
    value["timeline"] = timeline_of(*stored);
    value["belongs_to"] = belongs_to(*platform, name, *stored);
    return answer(std::move(value));
  }
  if (asked) (void)queue_of(*platform, *asked);  // 404 for an unknown queue
  throw Problem(404, "there is no message " + id.to_string());
}

EnqueueRequest enqueue_request(Body& body) {
  EnqueueRequest request;
  request.topic = body.required_text("topic");
  request.payload = body.text("payload").value_or("");
  request.due_at = body.time("due_at");
  request.expires_at = body.time("expires_at");
  request.correlation_id = body.text("correlation_id");
  request.unique_key = body.text("unique_key");
  request.stream = body.text("stream");
  if (const auto id = body.text("message_id"))
    request.message_id = parse_id<MessageId>("message_id", *id);
  for (const auto& [name, value] : body.text_map("headers")) request.headers[name] = value;
  const auto priority = body.number("priority").value_or(0);
  if (priority < -5 || priority > 5)
    throw std::invalid_argument("priority must be -5 to 5, got " + std::to_string(priority));
  request.priority = static_cast<int>(priority);
  return request;
}

Response enqueue(Change& change) {
  const auto request = enqueue_request(change.body());
  change.describe("outbox/" + request.topic);
  return change.make_in_transaction([&](Transaction& transaction) {
    const auto enqueued = change.platform().outbox().enqueue(transaction, request);
    return Changed{.answer = {{"message_id", enqueued.to_string()}, {"stored", enqueued.stored()}},
                   .count = enqueued.stored() ? 1 : 0,
                   .status = enqueued.stored() ? 201 : 200};
  });
}

}  // namespace

void add_message_routes(RouteTable& routes, const Api& api) {
  add_read(routes, "/api/v1/messages",
           [api](const Request& request) { return list_messages(api, request); });
  add_read(routes, "/api/v1/messages/{message_id}",
           [api](const Request& request) { return show_message(api, request); });
  add_change(routes, api,
             {.pattern = "/api/v1/messages", .action = "message.enqueue", .handler = enqueue});
}

}  // namespace dovetail::server::api
