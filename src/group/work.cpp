#include "group/work.hpp"

#include <algorithm>

namespace dovetail::group {
namespace {

/// A database without a turn asks again after this time: another database may hang.
constexpr std::chrono::milliseconds asks_again{250};
constexpr std::chrono::seconds last_settling_time{1};

}  // namespace

Work::Work(const GroupThreads& threads, runtime::Node& node, const runtime::NodeHandlers& handlers,
           Place place)
    : threads_(threads),
      clock_(node.database().clock()),
      place_(std::move(place)),
      lease_(node.options().worker.lease),
      last_claim_(clock_.mono()) {
  for (const auto& queue : runtime::worked_queues(node, handlers)) {
    dispatchers_.push_back(runtime::make_dispatcher(node, queue, handlers, threads_.pool));
  }
}

Work::~Work() {
  request_stop();
  stop(MonoTime::min());
  finish(clock_.mono() + last_settling_time);
}

void Work::start() {
  const auto now = clock_.mono();
  fetching_ = threads_.fetchers.add([this](const std::stop_token& stop) { return step(stop); },
                                    MonoTime::max(), place_.is_over);
  const auto visit = [&agenda = threads_.fetchers, task = fetching_] {
    agenda.wake_by(task, MonoTime::min());
  };
  turn_ = threads_.turns.add(place_.key, place_.index, visit);
  for (const auto& each : dispatchers_) {
    auto& dispatcher = *each;
    const auto timekeeping = threads_.timekeepers.add(
        [&dispatcher](const std::stop_token&) { return dispatcher.keep_time(); }, MonoTime::max());
    dispatcher.begin({.fetcher = visit,
                      .timekeeper = [&agenda = threads_.timekeepers, timekeeping](MonoTime at) {
                        agenda.wake_by(timekeeping, at);
                      }});
    keeping_time_.push_back(timekeeping);
    renewing_.push_back(threads_.renewers.add(
        [&dispatcher](const std::stop_token& stop) { return dispatcher.renew_leases(stop); },
        now + lease_ / 6, place_.is_over));
  }
  paused_ = false;
  visit();
}

// --- visits

Work::Seen Work::assess() const {
  Seen seen;
  for (const auto& dispatcher : dispatchers_) {
    const auto one = dispatcher->assess();
    seen.needs.settles = seen.needs.settles || one.needs.settles;
    seen.needs.is_due = seen.needs.is_due || one.needs.is_due;
    seen.needs.has_room = seen.needs.has_room || one.needs.claims();
    seen.wake = std::min(seen.wake, one.wake);
  }
  return seen;
}

MonoTime Work::step(const std::stop_token& stop) {
  if (paused_) return MonoTime::max();
  auto seen = assess();
  threads_.turns.update(turn_, {seen.needs.is_due, seen.needs.has_room});
  const bool claims = threads_.turns.take(turn_);
  if (claims || seen.needs.settles) {
    std::size_t claimed = 0;
    bool lacked_room = false;
    for (const auto& dispatcher : dispatchers_) {
      const auto visit = dispatcher->visit(claims, stop);
      claimed += visit.claimed;
      lacked_room = lacked_room || visit.lacked_room;
    }
    if (claimed > 0) {
      last_claim_ = clock_.mono();
      has_claimed_ = true;
    }
    seen = assess();
    if (claims) {
      has_looked_ = true;
      // A queue that was not asked for lack of room is not empty.
      if (lacked_room) claimed = std::max<std::size_t>(claimed, 1);
      threads_.turns.end(turn_, claimed, {seen.needs.is_due, seen.needs.has_room});
    } else {
      threads_.turns.update(turn_, {seen.needs.is_due, seen.needs.has_room});
    }
  }
  if (seen.needs.settles) return MonoTime::min();
  if (seen.needs.claims()) return clock_.mono() + asks_again;
  return seen.wake;
}

bool Work::is_idle() const {
  return std::ranges::all_of(dispatchers_, [](const auto& each) { return each->assess().is_idle; });
}

bool Work::is_drained() const {
  return std::ranges::all_of(dispatchers_,
                             [](const auto& each) { return each->assess().is_drained; });
}

component::ServiceHealth Work::health() const {
  component::ServiceHealth worst;
  for (const auto& dispatcher : dispatchers_) {
    const auto health = dispatcher->health();
    if (health.failures > worst.failures) worst = health;
  }
  return worst;
}

// --- the end

bool Work::try_pause() {
  paused_ = true;
  threads_.fetchers.wait_for_step(fetching_);
  if (is_idle()) return true;
  paused_ = false;
  threads_.fetchers.wake_by(fetching_, clock_.mono());
  return false;
}

void Work::request_stop() {
  for (const auto& dispatcher : dispatchers_) dispatcher->request_stop();
}

bool Work::stop(MonoTime deadline) {
  bool ended = true;
  for (const auto& dispatcher : dispatchers_) ended = dispatcher->stop(deadline) && ended;
  return ended;
}

void Work::finish(MonoTime give_up_at) {
  if (fetching_) threads_.fetchers.remove(fetching_);
  if (turn_) threads_.turns.remove(turn_);
  for (const auto& task : renewing_) threads_.renewers.remove(task);
  for (const auto& task : keeping_time_) threads_.timekeepers.remove(task);
  fetching_ = {};
  turn_ = {};
  renewing_.clear();
  keeping_time_.clear();
  for (const auto& dispatcher : dispatchers_) {
    if (clock_.mono() < give_up_at) dispatcher->finish();
  }
}

}  // namespace dovetail::group
