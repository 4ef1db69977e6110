// The state of one database at a glance.
#include <algorithm>

#include "server/api/change.hpp"

namespace dovetail::server::api {
namespace {

constexpr int most_joins_counted = 1'000;

ordered_json overview_of(Platform& platform) {
  ordered_json queues;
  for (const auto* name : {"outbox", "inbox", "timers"}) {
    auto& queue = queue_of(platform, std::string{name});
    queues[name] = capped_counts(queue);
    queues[name]["paused_topics"] = json::to_json_array(queue.paused_topics());
  }
  const auto jobs = platform.jobs().list();
  const auto enabled = std::ranges::count_if(jobs, [](const Job& job) { return job.enabled; });
  const auto pending =
      platform.joins().list({.status = JoinStatus::pending}, {.size = most_joins_counted}).size();
  const auto instances = platform.instances().list();
  const auto stale =
      std::ranges::count_if(instances, [](const InstanceInfo& each) { return each.stale; });
  return {{"database", platform.name()},
          {"queues", std::move(queues)},
          {"jobs", {{"total", jobs.size()}, {"enabled", enabled}}},
          {"joins",
           {{"pending", pending},
            {"counted_up_to", most_joins_counted},
            {"capped", pending >= static_cast<std::size_t>(most_joins_counted)}}},
          {"instances", {{"total", instances.size()}, {"stale", stale}}},
          {"unhandled_topics", unhandled_json(platform)}};
}

}  // namespace

void add_overview_routes(RouteTable& routes, const Api& api) {
  add_read(routes, "/api/v1/overview", [api](const Request& request) {
    require_query(request, {});
    return answer(overview_of(*database_of(api, request)));
  });
}

}  // namespace dovetail::server::api
