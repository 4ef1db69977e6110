#include "event/subscription_runner.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/handler.hpp"
#include "event/subscription_context.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::event {
namespace {

using std::chrono::milliseconds;

/// The pause while other parts drain.
constexpr milliseconds drain_pause{50};
/// The time between two looks at a part that waits after a failure.
constexpr milliseconds retry_look{500};

}  // namespace

// --- creation

void SubscriptionCreator::create_once(const std::stop_token& stop) {
  const std::lock_guard lock(mutex_);
  if (created_) return;
  const auto& options = registration_->options;
  const auto start = start_position(stop);
  scope_->database.write({.repeatable = true, .stop = stop}, [&](storage::WriteSession& session) {
    scope_->store.create(session, {.name = registration_->name,
                                   .parts = options.parts,
                                   .types = options.types,
                                   .prefixes = options.prefixes,
                                   .start = start,
                                   .on_failure = to_string(options.on_failure)});
  });
  created_ = true;
}

std::int64_t SubscriptionCreator::start_position(const std::stop_token& stop) {
  if (const auto position = registration_->options.start.position()) return *position;
  for (;;) {
    storage::Stamped stamped;
    scope_->database.write({.single_statement = true, .repeatable = true, .stop = stop},
                           [&](storage::WriteSession& session) {
                             stamped =
                                 scope_->events.stamp(session, true, scope_->durable_positions);
                           });
    if (stamped.count < storage::EventStore::stamp_size) return stamped.head.value_or(0);
  }
}

// --- service

SubscriptionRunner::SubscriptionRunner(std::shared_ptr<Scope> scope,
                                       std::shared_ptr<Holdings> holdings,
                                       std::shared_ptr<SubscriptionCreator> creator, int part)
    : SteppedService(scope->database.clock()),
      scope_(std::move(scope)),
      holdings_(std::move(holdings)),
      creator_(std::move(creator)),
      registration_(creator_->registration()),
      home_(part),
      part_(part) {}

SubscriptionRunner::~SubscriptionRunner() {
  SteppedService::stop(MonoTime{});
}

std::string SubscriptionRunner::name() const {
  return "subscription " + registration_.name + "/" + std::to_string(home_);
}

component::ServiceHealth SubscriptionRunner::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

void SubscriptionRunner::subscribe() {
  const auto wake = [this] { wake_by(clock().mono()); };
  bell_.emplace(scope_->database.bell(storage::queue_names::event_feed), wake);
  hearing_.emplace(scope_->listener, wake);
}

void SubscriptionRunner::unsubscribe() {
  bell_.reset();
  hearing_.reset();
  try {
    release();
  } catch (const std::exception& error) {  // the lease expires by itself
    scope_->log.write(LogLevel::warn, "subscription.release_failed",
                      {{"store", scope_->database.name()},
                       {"subscription", registration_.name},
                       {"part", part_},
                       {"error", error.what()}});
  }
}

bool SubscriptionRunner::stop(MonoTime deadline) {
  request_stop();
  {
    std::unique_lock lock(mutex_);
    while (handling_ && clock().mono() < deadline) clock().wait_until(ended_, lock, deadline);
    if (handling_) return false;
  }
  return SteppedService::stop(deadline);
}

MonoTime SubscriptionRunner::step(const std::stop_token& stop) {
  try {
    const auto next = work(stop);
    const std::lock_guard lock(mutex_);
    health_.running = true;
    if (last_failure_.empty()) health_ = {.running = true};
    return next;
  } catch (const std::exception& error) {
    if (stop.stop_requested()) return MonoTime::max();  // unsubscribe() releases the lease
    forget();                                           // the next lease tells the position
    scope_->log.write(LogLevel::error, "subscription.failed",
                      {{"store", scope_->database.name()},
                       {"subscription", registration_.name},
                       {"part", part_},
                       {"error", error.what()}});
    const ExponentialBackoff backoff{
        .initial = milliseconds{100}, .cap = milliseconds{5'000}, .jitter = 0.5};
    const std::lock_guard lock(mutex_);
    health_.last_error = error.what();
    return clock().mono() + backoff.delay(std::min(health_.failures++, 20), core::random_unit());
  }
}

MonoTime SubscriptionRunner::work(const std::stop_token& stop) {
  creator_->create_once(stop);
  if (holding_ && holding_->is_lost()) forget();
  if (holding_ && holding_->is_wanted_back()) release();
  if (!holding_ && !acquire_next(stop)) return clock().mono() + scope_->worker.poll_interval;
  const auto& lease = holding_->lease();
  if (lease.drain_to && position_ >= *lease.drain_to) {
    const auto next = part_ + registration_.options.parts;
    part_ = next < lease.parts ? next : home_;
    release();  // the last part to arrive replaces the parts
    return clock().mono() + drain_pause;
  }
  if (clock().mono() < retry_at_) return wait_for_retry(stop);
  if (handle_resumed(stop) || handle_page(stop)) return std::max(clock().mono(), retry_at_);
  load_parked(stop);  // an operator may have resumed something
  const bool resumed = std::ranges::any_of(
      parked_, [](const ParkedEvent& each) { return each.resumed_at.has_value(); });
  return resumed ? clock().mono() : clock().mono() + scope_->idle_pause();
}

/// Looks now and then whether an operator has resumed the subscription, or skipped the event.
MonoTime SubscriptionRunner::wait_for_retry(const std::stop_token& stop) {
  const auto now = clock().mono();
  if (now - leased_at_ >= retry_look) {
    forget();
    if (!acquire(stop)) return now + scope_->worker.poll_interval;
  }
  return std::min<MonoTime>(std::max(retry_at_, now), now + retry_look);
}

// --- the lease

bool SubscriptionRunner::acquire(const std::stop_token& stop) {
  const auto sent_at = clock().mono();
  const auto duration = registration_.options.lease;
  std::optional<storage::PartLease> lease;
  scope_->database.write({.repeatable = true, .stop = stop}, [&](storage::WriteSession& session) {
    lease = scope_->store.acquire(session, registration_.name, part_, scope_->owner, duration);
  });
  if (!lease) return false;
  leased_at_ = sent_at;
  position_ = lease->position;
  single_until_ = lease->attempts > 0 ? position_ + 1 : 0;
  failed_attempts_ = lease->attempts;
  retry_at_ = sent_at + lease->retry_in;
  holding_ = std::make_shared<Holding>(*std::move(lease), duration, sent_at);
  holding_->on_change([this] { wake_by(clock().mono()); });
  holdings_->add(holding_);
  load_parked(stop);
  return true;
}

/// If the number of parts becomes smaller, the parts beyond the new number have no runner. The
/// others lease them when their own parts have drained.
bool SubscriptionRunner::acquire_next(const std::stop_token& stop) {
  if (acquire(stop) && (part_ == home_ || holding_->lease().drain_to)) return true;
  if (part_ == home_) return false;
  release();
  part_ = home_;
  return acquire(stop);
}

void SubscriptionRunner::forget() {
  if (!holding_) return;
  holdings_->remove(holding_);
  holding_->on_change({});
  holding_.reset();
}

void SubscriptionRunner::release() {
  if (!holding_) return;
  const auto held = holding_;
  forget();
  scope_->database.write(
      {.single_statement = true, .repeatable = true, .stop = cut_.get_token()},
      [&](storage::WriteSession& session) { scope_->store.release(session, held->lease()); });
}

void SubscriptionRunner::load_parked(const std::stop_token& stop) {
  const auto& lease = holding_->lease();
  scope_->database.read(
      [&](storage::ReadSession& session) {
        parked_ = scope_->store.parked(session, lease.name, lease.parts, lease.part);
      },
      {.stop = stop});
  parked_streams_.clear();
  parked_positions_.clear();
  for (const auto& parked : parked_) {
    if (parked.kind == ParkedKind::stream) {
      parked_streams_.insert(parked.stream);
    } else {
      parked_positions_.insert(parked.position);
    }
  }
}

}  // namespace dovetail::event
