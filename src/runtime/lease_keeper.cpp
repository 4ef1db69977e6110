#include "runtime/lease_keeper.hpp"

#include <algorithm>
#include <system_error>
#include <thread>

#include "storage/row_hint.hpp"

namespace dovetail::runtime {
namespace {

/// A message that has been in a run for so long gets a lease of its own: messages that were
/// committed later wait for the end of the run.
constexpr std::chrono::milliseconds longest_run{1'000};

}  // namespace

void tell_to_stop(const std::vector<DeliveryPtr>& deliveries) {
  std::vector<DeliveryPtr> left;
  for (const auto& delivery : deliveries) {
    try {
      std::thread([delivery] { delivery->stop.request_stop(); }).detach();
    } catch (const std::system_error&) {
      left.push_back(delivery);
    }
  }
  // There are no more threads. A slow callback delays the tokens behind it, and no others.
  for (const auto& delivery : left) delivery->stop.request_stop();
}

void LeaseKeeper::start() {
  renewer_ = std::jthread([this](const std::stop_token& stop) { run_renewer(stop); });
  timekeeper_ = std::jthread([this] { run_timekeeper(); });
}

std::vector<component::Loop> LeaseKeeper::loops(const std::string& prefix) const {
  const auto usual = std::chrono::duration_cast<std::chrono::milliseconds>(interval());
  return {{prefix + "renewer", usual, [this] { return renewing_.look(); }},
          {prefix + "timekeeper", {}, [this] { return keeping_time_.look(); }}};
}

void LeaseKeeper::begin(Wake wake) {
  const std::lock_guard lock(ledger_.mutex);
  wake_ = std::move(wake);
}

void LeaseKeeper::request_stop() {
  {
    const std::lock_guard lock(ledger_.mutex);
    closed_ = true;
    wakes_.notify_all();
  }
  renewer_.request_stop();
}

void LeaseKeeper::stop() {
  request_stop();
  io_.request_stop();
  renewer_ = {};
  timekeeper_ = {};
}

MonoDuration LeaseKeeper::interval() const {
  return std::min<MonoDuration>(lease_ / 6, longest_run / 2);
}

MonoDuration LeaseKeeper::safety_margin() const {
  return std::min<MonoDuration>(lease_ / 10, std::chrono::seconds{1});
}

void LeaseKeeper::watch(MonoTime deadline) {
  if (deadline >= next_deadline_) return;
  next_deadline_ = deadline;
  keeping_time_.due_by(deadline);
  if (wake_) return wake_(deadline);
  wakes_.notify_one();
}

void LeaseKeeper::note_lost(Delivery& delivery, MonoTime since) {
  delivery.lease_end = std::min(delivery.lease_end, since);
  watch(MonoTime::min());
}

// --- renewals

void LeaseKeeper::run_renewer(const std::stop_token& stop) {
  auto& clock = scope_.database.clock();
  auto next = clock.mono() + interval();
  for (;;) {
    renewing_.rest(next);
    if (!clock.sleep_until(next, stop)) break;
    renewing_.begin();
    next = renew(io_.get_token());
  }
  renewing_.rest(MonoTime::max());
}

std::vector<Claim> LeaseKeeper::claims_to_renew(MonoTime now) {
  std::vector<Claim> claims;
  const std::lock_guard lock(ledger_.mutex);
  std::vector<DeliveryPtr> idle;
  const auto is_due = [&](MonoTime lease_end) {
    return lease_end - now <= MonoDuration{lease_} * 2 / 3;
  };
  const auto is_old_in_run = [&](const Delivery& delivery) {
    const auto claimed_at = delivery.lease_end - MonoDuration{lease_};
    return storage::is_of_run(delivery.claimed.claim) && !delivery.renewed &&
           now - claimed_at >= longest_run;
  };
  for (const auto& [id, delivery] : ledger_.held()) {
    const bool is_old = is_old_in_run(*delivery);
    if (!is_due(delivery->lease_end) && !is_old) continue;
    if (delivery->running || is_old) {
      claims.push_back(delivery->claimed.claim);
    } else {
      idle.push_back(delivery);
    }
  }
  for (const auto& delivery : idle) holder_.return_unstarted(delivery);
  for (const auto& each : ledger_.aside()) {
    if (is_due(each.lease_end)) claims.push_back(each.settlement.claim);
  }
  std::ranges::sort(claims, {}, &Claim::id);
  return claims;
}

MonoTime LeaseKeeper::renew(const std::stop_token& stop) {
  auto& clock = scope_.database.clock();
  const auto sent_at = clock.mono();
  const auto claims = claims_to_renew(sent_at);
  if (claims.empty()) {
    const std::lock_guard lock(ledger_.mutex);
    renewals_.failures = 0;
  } else {
    try {
      const auto held = source_.renew(claims, lease_, stop);
      scope_.count_metric("dovetail_lease_renewed_total", held.size());
      note_renewal(claims, held, sent_at);
    } catch (const std::exception& error) {
      note_failure(error);
    }
  }
  return clock.mono() + interval();
}

void LeaseKeeper::note_failure(const std::exception& error) {
  scope_.log_error("renewal_failed", "dovetail_lease_renewal_failed_total", error);
  const std::lock_guard lock(ledger_.mutex);
  ++renewals_.failures;
  renewals_.last_error = error.what();
}

component::ServiceHealth LeaseKeeper::renewals() const {
  const std::lock_guard lock(ledger_.mutex);
  return renewals_;
}

void LeaseKeeper::note_renewal(const std::vector<Claim>& asked, const std::vector<MessageId>& held,
                               MonoTime sent_at) {
  std::vector<MessageId> sorted(held);
  std::ranges::sort(sorted);
  const std::lock_guard lock(ledger_.mutex);
  renewals_.failures = 0;
  for (auto& each : ledger_.aside()) {
    if (!std::ranges::binary_search(sorted, each.settlement.claim.id)) continue;
    each.lease_end = std::max(each.lease_end, sent_at + MonoDuration{lease_});
    storage::forget_row(each.settlement.claim);  // the renewal has moved the row
  }
  for (const auto& claim : asked) {
    const auto delivery = ledger_.find(claim);
    if (!delivery) continue;  // settled meanwhile
    if (std::ranges::binary_search(sorted, claim.id)) {
      delivery->lease_end = std::max(delivery->lease_end, sent_at + MonoDuration{lease_});
      delivery->renewed = true;
    } else if (!delivery->committing && !storage::is_of_stream(claim)) {
      // A stream is skipped while its row is locked for a moment. The next renewal follows soon.
      note_lost(*delivery, sent_at);
    }
  }
}

// --- stop tokens

MonoTime LeaseKeeper::find_stops(MonoTime now, std::vector<Stop>& due) {
  MonoTime next = now + std::chrono::hours{1};
  std::vector<DeliveryPtr> hanging;
  std::vector<DeliveryPtr> blocked;
  for (const auto& [id, delivery] : ledger_.held()) {
    if (!delivery->running) continue;
    if (delivery->commit_began != MonoTime::max() && !delivery->thread_added) {
      const auto blocked_at = delivery->commit_began + commit_patience;
      if (blocked_at <= now) blocked.push_back(delivery);
      if (blocked_at > now) next = std::min<MonoTime>(next, blocked_at);
    }
    const auto timeout = delivery->handler->options.timeout;
    // If its transaction excludes other writers, no other owner can take the lease.
    const auto lost_at =
        delivery->holds_lease ? MonoTime::max() : delivery->lease_end - safety_margin();
    const auto times_up = timeout.count() > 0 ? delivery->started + timeout : MonoTime::max();
    if (!delivery->stop_requested && std::min(lost_at, times_up) <= now) {
      delivery->stop_requested = true;
      due.push_back({delivery, lost_at <= now ? Reason::lease_ends : Reason::timeout});
    }
    if (!delivery->stop_requested) next = std::min({next, lost_at, times_up});
    if (timeout.count() == 0) continue;
    const auto hangs_at = times_up + lease_;
    if (hangs_at <= now) {
      hanging.push_back(delivery);
      due.push_back({delivery, Reason::hangs});
    } else {
      next = std::min<MonoTime>(next, hangs_at);
    }
  }
  for (const auto& delivery : blocked) holder_.add_thread_for_blocked_commit(delivery);
  for (const auto& delivery : hanging) holder_.give_up(delivery);
  return next;
}

void LeaseKeeper::fire(const std::vector<Stop>& due) const {
  for (const auto& [delivery, reason] : due) {
    switch (reason) {
      case Reason::lease_ends:
        report_stop(*delivery, "lease_ending", "dovetail_lease_ending_total");
        break;
      case Reason::timeout:
        report_stop(*delivery, "handler_timeout", "dovetail_handler_timeout_total");
        break;
      case Reason::hangs:
        report_stop(*delivery, "handler_hangs", "dovetail_handler_hangs_total");
        break;
    }
    tell_to_stop({delivery});
  }
}

void LeaseKeeper::report_stop(const Delivery& delivery, std::string_view what,
                              std::string_view metric) const {
  const auto& message = delivery.claimed.message;
  scope_.log.write(LogLevel::error, scope_.event(what),
                   {{"store", scope_.database.name()},
                    {"topic", message.topic},
                    {"message_id", message.id.to_string()}});
  scope_.metrics.count(
      metric, 1,
      {{"store", scope_.database.name()}, {"queue", scope_.queue()}, {"topic", message.topic}});
}

MonoTime LeaseKeeper::keep_time() {
  std::vector<Stop> due;
  MonoTime next{};
  {
    const std::lock_guard lock(ledger_.mutex);
    next_deadline_ = MonoTime::max();
    next = find_stops(scope_.database.clock().mono(), due);
    next_deadline_ = std::min(next_deadline_, next);
  }
  fire(due);
  return next;
}

void LeaseKeeper::run_timekeeper() {
  auto& clock = scope_.database.clock();
  std::unique_lock lock(ledger_.mutex);
  while (!closed_) {
    lock.unlock();
    keeping_time_.begin();
    const auto next = keep_time();
    lock.lock();
    keeping_time_.rest(std::min(next, next_deadline_));
    while (!closed_ && next_deadline_ >= next && clock.mono() < next) {
      clock.wait_until(wakes_, lock, next);
    }
  }
  lock.unlock();
  keeping_time_.rest(MonoTime::max());
}

}  // namespace dovetail::runtime
