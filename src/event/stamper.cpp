#include "event/stamper.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::event {
namespace {

using std::chrono::milliseconds;

/// The events that commit within this time share a stamp.
constexpr milliseconds gathering_time{1};
/// The pause when another process stamps.
constexpr milliseconds others_stamp{20};

}  // namespace

void Stamper::subscribe() {
  const auto wake = [this] { wake_by(clock().mono() + gathering_time); };
  bell_.emplace(scope_->database.bell(storage::queue_names::events), wake);
  hearing_.emplace(scope_->listener, wake);
}

void Stamper::unsubscribe() {
  bell_.reset();
  hearing_.reset();
}

component::ServiceHealth Stamper::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

MonoTime Stamper::step(const std::stop_token& stop) {
  MonoDuration pause{};
  try {
    pause = stamp(stop);
    const std::lock_guard lock(mutex_);
    health_ = {.running = true};
  } catch (const std::exception& error) {
    if (stop.stop_requested()) return MonoTime::max();
    scope_->metrics.count("dovetail_events_stamp_failed_total", 1,
                          {{"store", scope_->database.name()}});
    scope_->log.write(LogLevel::error, "events.stamp_failed",
                      {{"store", scope_->database.name()}, {"error", error.what()}});
    const ExponentialBackoff backoff{
        .initial = milliseconds{100}, .cap = milliseconds{5'000}, .jitter = 0.5};
    const std::lock_guard lock(mutex_);
    pause = backoff.delay(std::min(health_.failures++, 20), core::random_unit());
    health_.last_error = error.what();
  }
  return clock().mono() + pause;
}

MonoDuration Stamper::stamp(const std::stop_token& stop) {
  storage::Stamped stamped;
  scope_->database.write(
      {.single_statement = true, .repeatable = true, .service = true, .stop = stop},
      [&](storage::WriteSession& session) {
        stamped = scope_->events.stamp(session, false, scope_->durable_positions);
      });
  if (!stamped.head) return others_stamp;
  if (stamped.count >= storage::EventStore::stamp_size) return MonoDuration{};
  return scope_->idle_pause();
}

}  // namespace dovetail::event
