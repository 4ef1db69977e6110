// The history of a queue's work.
#include "server/api/change.hpp"

namespace dovetail::server::api {
namespace {

ordered_json bucket_json(const HistoryBucket& bucket, bool by_topic) {
  using seconds = std::chrono::duration<double>;
  ordered_json value{{"begin", to_string(bucket.begin)}};
  if (by_topic) value["topic"] = bucket.topic;
  value.update({{"enqueued", bucket.enqueued},
                {"done", bucket.done},
                {"retried", bucket.retried},
                {"failed", bucket.failed},
                {"calls", bucket.calls},
                {"handler_seconds", seconds{bucket.handler_time}.count()},
                {"handler_seconds_max", seconds{bucket.handler_time_max}.count()}});
  return value;
}

ordered_json backlog_json(Platform& platform, const HistoryRequest& request) {
  if (request.by_topic || !request.topic.empty()) return nullptr;
  auto buckets = ordered_json::array();
  for (const auto& each : platform.history().backlog(request)) {
    buckets.push_back({{"begin", to_string(each.begin)},
                       {"ready", each.ready},
                       {"in_progress", each.in_progress}});
  }
  return buckets;
}

/// Limits the size of an answer. A bucket by topic can have 200 topics.
void require_few_buckets(const HistoryRequest& request) {
  const auto most = request.by_topic ? 200 : 1'500;
  const auto length = std::chrono::duration_cast<std::chrono::seconds>(request.to - request.from);
  if (request.step.count() > 0 && length / request.step > most) {
    throw std::invalid_argument("from, to and step must give at most " + std::to_string(most) +
                                " buckets" + (request.by_topic ? " by topic" : ""));
  }
}

Response show_history(const Api& api, const Request& request) {
  require_query(request, {"queue", "topic", "by_topic", "from", "to", "step"});
  const auto platform = database_of(api, request);
  const auto queue = request.query_value("queue").value_or("outbox");
  (void)queue_of(*platform, queue);  // 404 for an unknown queue
  const auto to = time_of(request, "to").value_or(system_clock()->wall());
  const HistoryRequest asked{.queue = queue,
                             .topic = request.query_value("topic").value_or(""),
                             .by_topic = flag_of(request, "by_topic"),
                             .from = time_of(request, "from").value_or(to - std::chrono::hours{1}),
                             .to = to,
                             .step = std::chrono::seconds{number_of(request, "step").value_or(60)}};
  require_few_buckets(asked);
  auto buckets = ordered_json::array();
  for (const auto& each : platform->history().buckets(asked))
    buckets.push_back(bucket_json(each, asked.by_topic));
  return answer({{"queue", queue},
                 {"from", to_string(asked.from)},
                 {"to", to_string(asked.to)},
                 {"step_seconds", asked.step.count()},
                 {"items", std::move(buckets)},
                 {"backlog", backlog_json(*platform, asked)}});
}

}  // namespace

void add_history_routes(RouteTable& routes, const Api& api) {
  add_read(routes, "/api/v1/history",
           [api](const Request& request) { return show_history(api, request); });
}

}  // namespace dovetail::server::api
