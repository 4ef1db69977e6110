// Start, stop and state of a route.
#include "transport/publish_service.hpp"

#include <algorithm>
#include <utility>

#include "runtime/node_services.hpp"

namespace dovetail::transport {
namespace {

using std::chrono::milliseconds;

/// Lanes for messages without a stream: while one waits for the broker, the other one asks the
/// database.
constexpr std::size_t message_lanes = 2;
/// The time in which a stopped route settles its last messages, also after the deadline.
constexpr milliseconds settling_time{1'000};
/// How long a stopped route waits for a Publisher that was told to end its call.
constexpr milliseconds end_patience{2'000};

std::size_t lanes_of(const Route& route) {
  return std::min<std::size_t>(message_lanes, static_cast<std::size_t>(route.options.window));
}

component::Queue outbox_of(runtime::Node& node) {
  auto queues = node.queues();
  return *std::ranges::find_if(
      queues, [](const component::Queue& each) { return each.queue->name() == "outbox"; });
}

}  // namespace

PublishService::PublishService(runtime::Node& node, const runtime::NodeHandlers& handlers,
                               Route route)
    : route_(std::move(route)),
      worker_(node.options().worker),
      scope_(runtime::queue_scope(node, outbox_of(node))),
      source_name_(route_.options.source.empty() ? node.database().name() : route_.options.source),
      listener_(node.listener()),
      source_(scope_),
      topics_(route_.pattern, handlers.of("outbox").routes(),
              [&registry = handlers.of("outbox")](std::string_view topic) {
                return registry.find(topic) != nullptr;
              }),
      keeping_(node.database().clock()),
      planner_(static_cast<std::size_t>(route_.options.window), lanes_of(route_),
               route_.max_attempts),
      breaker_(route_.options.first_probe, route_.options.longest_probe) {
  planner_.set_topics(topics_.topics());
  make_lanes();
}

void PublishService::make_lanes() {
  if (route_.options.window == 1) {
    lanes_.emplace_back(clock()).kinds = {false, true};
    return;
  }
  for (std::size_t i = 0; i < lanes_of(route_); ++i) lanes_.emplace_back(clock()).kinds = {false};
  lanes_.emplace_back(clock()).kinds = {true};
}

PublishService::~PublishService() {
  cut_off();
  PublishService::stop(clock().mono());
  for (auto& lane : lanes_) lane.thread = {};  // joins
}

PublishService::Bells::Bells(PublishService& service)
    : messages(service.scope_.database.bell(service.scope_.queue()),
               [&service] {
                 const std::lock_guard lock(service.mutex_);
                 service.planner_.ring();
                 service.searches_ = true;
                 service.wakes_.notify_all();
                 if (service.topics_.is_pattern()) service.keeper_wakes_.notify_one();
               }),
      listener(service.listener_, [&service] {
        const std::lock_guard lock(service.mutex_);
        service.planner_.poll_by(service.clock().mono() + service.worker_.poll_interval);
        service.wakes_.notify_all();
      }) {}

void PublishService::start() {
  {
    const std::lock_guard lock(mutex_);
    health_.running = true;
    searches_ = topics_.is_pattern();
  }
  bells_.emplace(*this);
  keeper_ = std::jthread([this] { keep(); });
  for (auto& lane : lanes_) lane.thread = std::jthread([this, &lane] { run(lane); });
}

void PublishService::request_stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  probes_.request_stop();
  wakes_.notify_all();
}

bool PublishService::await_lanes(std::unique_lock<std::mutex>& lock, MonoTime until) {
  const auto has_ended = [](const Lane& lane) { return lane.ended || !lane.thread.joinable(); };
  while (!std::ranges::all_of(lanes_, has_ended)) {
    if (clock().mono() >= until) return false;
    clock().wait_until(wakes_, lock, until);
  }
  return true;
}

bool PublishService::stop(MonoTime deadline) {
  PublishService::request_stop();
  {
    std::unique_lock lock(mutex_);
    if (!await_lanes(lock, deadline)) {
      calls_.request_stop();
      if (!await_lanes(lock, clock().mono() + settling_time)) {
        io_.request_stop();
        closed_ = true;
        wakes_.notify_all();
        if (!await_lanes(lock, clock().mono() + end_patience)) return false;
      }
    }
    keeper_ends_ = true;
    health_.running = false;
    keeper_wakes_.notify_one();
  }
  bells_.reset();
  io_.request_stop();                          // of the keeper
  for (auto& lane : lanes_) lane.thread = {};  // joins
  if (keeper_.joinable()) route_.publisher->close();
  keeper_ = {};
  return true;
}

void PublishService::cut_off() {
  calls_.request_stop();
  probes_.request_stop();
  io_.request_stop();
}

component::ServiceHealth PublishService::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

std::vector<component::Loop> PublishService::loops() const {
  const auto look = [this] {
    core::LoopProgress::State worst{.last = MonoTime::max()};
    for (const auto& lane : lanes_) {
      const auto state = lane.progress.look();
      worst.last = std::min(worst.last, state.last);
      worst.overdue = std::max(worst.overdue, state.overdue);
    }
    return worst;
  };
  return {{name(), worker_.idle_poll_interval, look},
          {name() + ": keeper", worker_.idle_poll_interval, [this] { return keeping_.look(); }}};
}

std::optional<std::string> PublishService::outage() const {
  const auto now = info();
  if (now.state != TransportState::unavailable && now.state != TransportState::blocked) return {};
  return "the route " + now.name + " to " + now.address + " is " +
         std::string{dovetail::to_string(now.state)} + ": " + now.reason;
}

TransportInfo PublishService::info() const {
  TransportInfo info{.direction = TransportInfo::Direction::publish,
                     .name = route_.pattern,
                     .kind = route_.publisher->kind(),
                     .address = route_.publisher->address()};
  const std::lock_guard lock(mutex_);
  const auto set = [&](TransportState state, const std::string& reason, MonoTime since) {
    info.state = state;
    info.reason = reason;
    info.since = std::chrono::duration_cast<milliseconds>(clock().mono() - since);
  };
  if (health_.running) info.state = TransportState::running;
  if (health_.running && health_.failures > 0) {
    set(TransportState::failing, health_.last_error, failing_since_);
  } else if (health_.running && breaker_.is_open()) {
    set(TransportState::unavailable, breaker_.reason(), *breaker_.since());
  } else if (health_.running && blocked_) {
    set(TransportState::blocked, *blocked_, blocked_since_);
  }
  info.in_flight = planner_.held();
  info.done = counts_.confirmed;
  info.repeated = counts_.rejected;
  info.dead = counts_.dead;
  return info;
}

}  // namespace dovetail::transport
