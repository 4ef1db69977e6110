#include "server/events.hpp"

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

ordered_json sample_of(Platform& platform) {
  return {{"key", platform.name()},
          {"queues",
           {{"outbox", json::to_json(platform.outbox().counts())},
            {"inbox", json::to_json(platform.inbox().queue().counts())},
            {"timers", json::to_json(platform.timers().queue().counts())}}}};
}

/// Of a group only the states: counts would open its idle databases.
ordered_json sample_of(const PlatformGroup& group) {
  auto list = ordered_json::array();
  for (const auto& each : group.status().databases) {
    list.push_back({{"key", each.key}, {"state", std::string{to_string(each.state)}}});
  }
  return list;
}

std::string sample_event(const Databases& databases) {
  try {
    ordered_json data{{"time", to_string(system_clock()->wall())}};
    data["databases"] = databases.is_group()
                            ? sample_of(*databases.group())
                            : ordered_json::array({sample_of(*databases.find({}))});
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
    auto event = sample_event(databases_);
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
