#include "event/subscription_keeper.hpp"

#include <algorithm>

namespace dovetail::event {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds look_interval{1'000};
constexpr milliseconds shortest_pause{10};

/// A lease is renewed when a third of it has passed.
MonoTime renewal_of(const Holding& holding) {
  return holding.ends() - holding.duration() * 2 / 3;
}

}  // namespace

component::ServiceHealth SubscriptionKeeper::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

MonoTime SubscriptionKeeper::step(const std::stop_token& stop) {
  try {
    renew_due(stop);
    if (clock().mono() >= next_look_) {
      next_look_ = clock().mono() + look_interval;
      look_at_subscriptions(stop);
    }
    const std::lock_guard lock(mutex_);
    health_ = {.running = true};
  } catch (const std::exception& error) {
    if (stop.stop_requested()) return MonoTime::max();
    scope_->log.write(LogLevel::warn, "subscription.renewal_failed",
                      {{"store", scope_->database.name()}, {"error", error.what()}});
    const std::lock_guard lock(mutex_);
    ++health_.failures;
    health_.last_error = error.what();
  }
  lose_expired();
  const auto soonest = clock().mono() + shortest_pause;
  return std::max<MonoTime>(soonest, std::min(next_look_, next_renewal()));
}

void SubscriptionKeeper::renew_due(const std::stop_token& stop) {
  for (const auto& holding : holdings_->all()) {
    const auto now = clock().mono();
    if (holding->is_lost() || now < renewal_of(*holding)) continue;
    bool held = false;
    scope_->database.write(
        {.single_statement = true, .repeatable = true, .service = true, .stop = stop},
        [&](storage::WriteSession& session) {
          held = scope_->store.renew(session, holding->lease(), holding->duration());
        });
    if (held) {
      holding->extend(now + holding->duration());
    } else {
      holding->lose();
    }
  }
}

void SubscriptionKeeper::lose_expired() {
  for (const auto& holding : holdings_->all()) {
    if (clock().mono() >= holding->ends() - holding->duration() / 10) holding->lose();
  }
}

void SubscriptionKeeper::look_at_subscriptions(const std::stop_token& stop) {
  std::vector<SubscriptionStatus> all;
  std::vector<storage::SubscriptionChanges> changes;
  scope_->database.read(
      [&](storage::ReadSession& session) {
        all = scope_->store.list(session, std::nullopt);
        changes = scope_->store.changes(session);
      },
      {.service = true, .stop = stop});
  const auto holdings = holdings_->all();
  for (const auto& [name, count] : changes) {
    for (const auto& holding : holdings) {
      if (holding->lease().name == name && holding->lease().changes < count) holding->give_back();
    }
  }
  for (const auto& status : all) {
    for (const auto& holding : holdings) {
      if (status.paused_at && holding->lease().name == status.name) holding->give_back();
    }
    const std::chrono::duration<double> late = status.lag_time.value_or(milliseconds{0});
    scope_->metrics.gauge("dovetail_events_subscription_lag", static_cast<double>(status.lag),
                          {{"store", scope_->database.name()}, {"subscription", status.name}});
    scope_->metrics.gauge("dovetail_events_subscription_lag_seconds", late.count(),
                          {{"store", scope_->database.name()}, {"subscription", status.name}});
  }
}

MonoTime SubscriptionKeeper::next_renewal() const {
  auto next = MonoTime::max();
  for (const auto& holding : holdings_->all()) {
    if (!holding->is_lost()) next = std::min(next, renewal_of(*holding));
  }
  return next;
}

}  // namespace dovetail::event
