#include "runtime/subscription.hpp"

#include <algorithm>
#include <utility>

#include "core/topic_pattern.hpp"

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;

/// The longest wait: as good as forever, without an overflow of the clock.
constexpr milliseconds longest_due = std::chrono::hours{24 * 365};
/// A handler with a concurrency limit gets messages for about this time ahead.
constexpr milliseconds ahead{100};
/// A subscription to streams is dormant after this many claims that saw no streams at all.
constexpr int idle_until_dormant = 10;

}  // namespace

void Subscription::wake() {
  if (!dormant_) return;
  dormant_ = false;
  idle_polls_ = 0;
  ring();
}

std::size_t Subscription::room(std::size_t batch) const {
  if (limited_ == nullptr) {
    // A second claim at the same time is made only if the workers are faster than the database.
    const bool hungry = waiting <= batch && (claiming_ == 0 || waiting == 0);
    return hungry ? batch : 0;
  }
  const auto limit = static_cast<std::size_t>(limited_->options.concurrency);
  const auto took = std::max<MonoDuration>(handler_time_, std::chrono::microseconds{1});
  const auto per_thread =
      handler_time_ == MonoDuration{} ? std::size_t{1} : static_cast<std::size_t>(ahead / took);
  const auto prefetch_limit = std::clamp(limit * per_thread, std::min(limit, batch), batch);
  if (claiming_ > 0 || held >= limit + prefetch_limit || 2 * waiting > prefetch_limit) return 0;
  return std::min(limit + prefetch_limit - held, batch);
}

void Subscription::note_handled(MonoDuration took) {
  handler_time_ = handler_time_ == MonoDuration{} ? took : (handler_time_ * 7 + took) / 8;
}

PlannedClaim Subscription::begin_claim(std::size_t wanted, std::uint64_t trip, MonoTime now) {
  using Reason = QueueScan::Reason;
  PlannedClaim claim;
  claim.trip = trip;
  claim.wanted = wanted;
  claim.alone = claiming_ == 0;
  claiming_ += wanted;
  const auto reason = rung_ ? Reason::rung : more_ ? Reason::more : Reason::poll;
  const bool continues = scan_.begin(claim, reason, now);
  claim.may_be_run = !claim.scans && more_ && !scan_.take_returned() && !claims_streams();
  claim.asks_next_due = !more_ || claim.scans;
  claim.rung = std::exchange(rung_, false);
  if (now >= due_at_ && !continues) due_at_ = MonoTime::max();
  return claim;
}

void Subscription::cancel_claim(const PlannedClaim& claim) {
  claiming_ -= claim.wanted;
  scan_.cancel();
  rung_ = true;
}

void Subscription::end_claim(const PlannedClaim& claim, const storage::Claimed& claimed,
                             const PollPace& pace, MonoTime sent_at, MonoTime now) {
  const bool full = is_full(claim, claimed);
  claiming_ -= claim.wanted;
  if (claimed.next_due) {
    // Counted from the start of the request, which is too early rather than too late.
    const auto in = std::min<std::chrono::microseconds>(*claimed.next_due, longest_due);
    note_due_at(sent_at + in + milliseconds{1});
  }
  switch (scan_.end(claim, claimed, sent_at, now)) {
    case QueueScan::Outcome::complete:
      break;
    case QueueScan::Outcome::unfinished:
      // A part of a scan has not looked for the new message.
      if (claim.scans && claim.rung) rung_ = true;
      return;
    case QueueScan::Outcome::scan_follows:
      more_ = true;
      return;
  }
  if (full) full_trip_ = std::max(full_trip_, claim.trip);
  if (more_ && full_trip_ > claim.trip)
    return;  // a trip that began later has found that there are more
  if (!full && more_ && (!claim.scans || !scan_.was_alone(claim))) {
    // The end of a burst. Claim again, and ask for the next due time: another claim may have locked
    // messages for a moment.
    more_ = false;
    note_due_at(now);
    return;
  }
  more_ = full;
  idle_polls_ = claimed.entries.empty() ? idle_polls_ + 1 : 0;
  dormant_ = claims_streams() && idle_polls_ >= idle_until_dormant && !claimed.has_streams;
  // While idle, poll less and less often if a listener reports new messages.
  const auto pause = std::min<MonoDuration>(
      pace.idle_interval, pace.interval * (1 << std::clamp(idle_polls_ - 1, 0, 10)));
  poll_at_ = now + pause;
}

namespace {

/// Adds two subscriptions: one for messages and one for streams.
void add(std::deque<Subscription>& subscriptions, std::optional<storage::TopicFilter> topics,
         const RegisteredHandler* limited, int max_attempts) {
  subscriptions.emplace_back(topics, limited, max_attempts, Subscription::Kind::messages);
  subscriptions.emplace_back(std::move(topics), limited, max_attempts, Subscription::Kind::streams);
}

}  // namespace

std::deque<Subscription> subscriptions_of(const HandlerRegistry& handlers, UnknownTopics unknown) {
  std::deque<Subscription> subscriptions;
  storage::TopicFilter shared;
  storage::TopicFilter known{.topics = {}, .except = true};
  storage::TopicFilter limited{.topics = {}, .except = true};
  int attempts = handlers.default_attempts();
  for (const auto& [topic, handler] : handlers.by_topic()) {
    known.topics.insert(topic);
    if (handler->options.concurrency > 0) {
      limited.topics.insert(topic);
      add(subscriptions, storage::TopicFilter{.topics = {topic}}, handler.get(),
          handler->max_attempts);
    } else {
      shared.topics.insert(topic);
      attempts = std::max(attempts, handler->max_attempts);
    }
  }
  for (const auto& route : handlers.routes()) {  // patterns and a fallback exclude each other
    if (!core::is_exact(route)) continue;
    known.topics.insert(route);
    limited.topics.insert(route);
  }
  const auto* fallback = handlers.fallback();
  const bool has_limit = fallback != nullptr && fallback->options.concurrency > 0;
  if (has_limit) add(subscriptions, known, fallback, fallback->max_attempts);
  if (!has_limit && (fallback != nullptr || unknown == UnknownTopics::abandon)) {
    if (fallback != nullptr) attempts = std::max(attempts, fallback->max_attempts);
    const bool all = limited.topics.empty();
    add(subscriptions, all ? std::nullopt : std::optional{limited}, nullptr, attempts);
  } else if (!shared.topics.empty()) {
    add(subscriptions, shared, nullptr, attempts);
  }
  return subscriptions;
}

}  // namespace dovetail::runtime
