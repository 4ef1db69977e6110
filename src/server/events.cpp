#include "server/events.hpp"

#include <algorithm>

#include "dovetail/clock.hpp"
#include "dovetail/error.hpp"
#include "json/to_json.hpp"
#include "server/routes.hpp"

namespace dovetail::server {
namespace {

using nlohmann::ordered_json;

std::string event_text(const std::string& name, const ordered_json& data) {
  const auto text = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return "event: " + name + "\ndata: " + text + "\n\n";
}

ordered_json store_json(const StoreSample& store) {
  ordered_json queues;
  for (const auto& each : store.queues) {
    queues[each.queue] = json::to_json(each.counts);
    queues[each.queue]["blocked_streams"] = each.blocked_streams;
  }
  ordered_json value{{"key", store.store},
                     {"taken_at", to_string(store.taken_at)},
                     {"queues", std::move(queues)},
                     {"joins",
                      {{"pending", store.joins.pending},
                       {"completed", store.joins.completed},
                       {"failed", store.joins.failed},
                       {"cancelled", store.joins.cancelled}}}};
  if (!store.error.empty()) value["error"] = store.error;
  return value;
}

/// The state of each database of a group. Those that the group has not opened have no counts: to
/// count would open them.
ordered_json group_json(const PlatformGroup& group, const Sample& sample) {
  auto list = ordered_json::array();
  for (const auto& each : group.status().databases) {
    const auto store = std::ranges::find(sample.stores, each.key, &StoreSample::store);
    auto value =
        store == sample.stores.end() ? ordered_json{{"key", each.key}} : store_json(*store);
    value["state"] = std::string{to_string(each.state)};
    list.push_back(std::move(value));
  }
  return list;
}

std::string sample_event(const Databases& databases, std::chrono::milliseconds interval) {
  try {
    const auto sample = databases.sample(interval / 2);
    ordered_json data{{"time", to_string(system_clock()->wall())}};
    if (databases.is_group()) {
      data["databases"] = group_json(*databases.group(), *sample);
    } else {
      const auto& store = sample->stores.at(0);
      if (!store.error.empty()) return event_text("problem", {{"detail", store.error}});
      data["databases"] = ordered_json::array({store_json(store)});
    }
    return event_text("sample", data);
  } catch (const std::exception& error) {
    return event_text("problem", {{"detail", error.what()}});
  }
}

}  // namespace

void EventHub::start(http::HttpServer& http) {
  stopping_ = false;
  thread_ = std::thread([this, &http] { run(http); });
}

void EventHub::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string EventHub::beginning() {
  const std::lock_guard lock(mutex_);
  is_wanted_ = true;
  changed_.notify_all();
  return last_.empty() ? ": welcome\n\n" : last_;
}

bool EventHub::wait_for_listeners(const http::HttpServer& http) {
  std::unique_lock lock(mutex_);
  if (!stopping_ && http.streams() == 0) {
    last_.clear();  // old by the time that somebody listens again
    changed_.wait(lock, [this] { return stopping_ || is_wanted_; });
  }
  is_wanted_ = false;
  return !stopping_;
}

void EventHub::run(http::HttpServer& http) {
  while (wait_for_listeners(http)) {
    auto event = sample_event(databases_, interval_);
    std::unique_lock lock(mutex_);
    last_ = event;
    http.broadcast(std::move(event));
    changed_.wait_for(lock, interval_, [this] { return stopping_; });
  }
}

void add_event_routes(RouteTable& routes, EventHub& hub) {
  routes.add({.method = "GET",
              .pattern = "/api/v1/events",
              .role = ServerRole::viewer,
              .handler =
                  [&hub](const Request&) {
                    return Response{.content_type = "text/event-stream",
                                    .body = hub.beginning(),
                                    .headers = {{"X-Accel-Buffering", "no"}},
                                    .is_stream = true};
                  },
              .capacity = Capacity::at_once});
}

}  // namespace dovetail::server
