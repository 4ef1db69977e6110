#include "runtime/subscription.hpp"

#include <algorithm>
#include <tuple>

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;

/// Claims usually begin at the marks. At this interval, a claim begins at the start of the queue.
constexpr milliseconds scan_interval{1'000};
/// Claims from the start may take at most one part in this many of the time. They become rarer if
/// they pass many messages of other topics, or many dead index entries.
constexpr int scan_share = 50;
constexpr milliseconds longest_scan_pause{60'000};
/// A new message is claimed before a claim from the start that takes longer than this.
constexpr milliseconds cheap_scan{2};
/// The number of messages that a claim examines at once: at first, while there is no other work,
/// and later, when new messages should not wait for it (about half a millisecond).
constexpr int first_look_at = 20'000;
constexpr int look_at_once = 2'000;
/// The longest wait: as good as forever, without an overflow of the clock.
constexpr milliseconds longest_due = std::chrono::hours{24 * 365};
/// A handler with a concurrency limit gets messages for about this time ahead.
constexpr milliseconds ahead{100};
/// A subscription to streams is dormant after this many claims that saw no streams at all.
constexpr int idle_until_dormant = 10;

std::size_t lane_of(int priority) {
  return static_cast<std::size_t>(priority - storage::lowest_priority);
}

bool is_before(const storage::QueueMark& a, const storage::QueueMark& b) {
  return std::tie(a.ready_at, a.id, a.row) < std::tie(b.ready_at, b.id, b.row);
}

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
  const auto beside = std::clamp(limit * per_thread, std::min(limit, batch), batch);
  if (claiming_ > 0 || held >= limit + beside || 2 * waiting > beside) return 0;
  return std::min(limit + beside - held, batch);
}

void Subscription::note_handled(MonoDuration took) {
  handler_time_ = handler_time_ == MonoDuration{} ? took : (handler_time_ * 7 + took) / 8;
}

void Subscription::came_back(int priority, const storage::QueueMark& place) {
  const auto lane = lane_of(priority);
  if (lane >= marks_.size()) return;
  const auto move_back = [&](std::optional<storage::QueueMark>& mark) {
    if (mark && is_before(place, *mark)) mark = place;
  };
  move_back(marks_[lane]);
  if (scan_place_) move_back((*scan_place_)[lane]);
}

PlannedClaim Subscription::begin_claim(std::size_t wanted, std::uint64_t trip, MonoTime now) {
  PlannedClaim claim;
  claim.trip = trip;
  claim.wanted = wanted;
  claim.alone = claiming_ == 0;
  latest_trip_ = trip;
  claiming_ += wanted;
  const bool by_the_clock = !rung_ && !more_;
  const bool wants_scan =
      scan_place_ || scan_next_ || !has_marks_ ||
      scan_is_due(now, by_the_clock ? MonoDuration{} : MonoDuration{scan_interval});
  // New messages do not wait for a long scan. But they go first only once. Then the scan has its
  // turn.
  yielded_ =
      wants_scan && rung_ && has_marks_ && (scan_place_ || scan_cost_ > cheap_scan) && !yielded_;
  claim.scans = wants_scan && !yielded_;
  const bool goes_on = claim.scans && scan_place_;
  if (goes_on) {
    claim.after = std::exchange(scan_place_, std::nullopt);
    claim.from_start = scan_from_start_;
  } else if (claim.scans) {
    claim.from_start = true;
    scan_next_ = false;
    scan_time_ = {};
    scanned_at_ = now;
  } else {
    claim.after = marks_;
  }
  claim.asks_next_due = !more_ || claim.scans;
  claim.look_at = has_marks_ ? look_at_once : first_look_at;
  claim.rung = std::exchange(rung_, false);
  if (now >= due_at_ && !goes_on) due_at_ = MonoTime::max();
  return claim;
}

void Subscription::cancel_claim(const PlannedClaim& claim) {
  claiming_ -= claim.wanted;
  scan_next_ = true;  // other claims may have skipped messages that this one locked for a moment
  rung_ = true;
}

/// The next claims begin where this claim found its first messages, or after the place up to which
/// it found none.
///
/// A claim skips messages that another claim locks for a moment. Only a claim that was alone has
/// seen all messages.
void Subscription::move_marks(const PlannedClaim& claim, const storage::Claimed& claimed) {
  const bool saw_all = was_alone(claim) && !claimed.unfinished;
  storage::QueueMarks places{};
  // Each claim moves a stream to the end of the line. So the place of a claimed message has no
  // meaning.
  for (const auto& entry : claimed.entries) {
    if (claims_streams()) break;
    const auto lane = lane_of(entry.claimed.message.priority);
    if (lane >= places.size() || places[lane]) continue;
    places[lane] = {.ready_at = entry.ready_at, .id = entry.claimed.claim.id.uuid(), .row = 0};
  }
  for (std::size_t lane = 0; lane < places.size(); ++lane) {
    const auto& passed = claimed.passed[lane];
    if (!places[lane] && passed && saw_all &&
        (!marks_[lane] || is_before(*marks_[lane], *passed))) {
      places[lane] = passed;
    }
    if (!places[lane]) continue;
    // Without a mark, claims begin at the start of the lane.
    const bool forward = !marks_[lane] || is_before(*marks_[lane], *places[lane]);
    if (forward && claim.trip <= beside_cut_) continue;
    marks_[lane] = places[lane];
    has_marks_ = true;
  }
}

/// A claim that reached its byte limit has locked messages that it did not take. Concurrent claims
/// have skipped these messages, so their marks must not hide them.
void Subscription::note_cut(const PlannedClaim& claim) {
  if (was_alone(claim)) return;
  beside_cut_ = latest_trip_;
  if (!claim.after) {
    scan_next_ = true;
    return;
  }
  for (std::size_t lane = 0; lane < marks_.size(); ++lane) {
    const auto& began_at = (*claim.after)[lane];
    if (marks_[lane] && (!began_at || is_before(*began_at, *marks_[lane]))) marks_[lane] = began_at;
  }
}

void Subscription::go_on_scanning(const PlannedClaim& claim, const storage::Claimed& claimed) {
  // A part of a scan has not looked for the new message.
  if (claim.scans && claim.rung) rung_ = true;
  if (!claim.scans && scan_place_) return;  // the waiting scan will pass this place
  scan_from_start_ = claim.from_start;
  scan_place_ = claim.after.value_or(storage::QueueMarks{});
  for (std::size_t lane = 0; lane < claimed.passed.size(); ++lane) {
    if (claimed.passed[lane]) (*scan_place_)[lane] = claimed.passed[lane];
  }
}

bool Subscription::note_scan(const PlannedClaim& claim, const storage::Claimed& claimed,
                             MonoTime sent_at, MonoTime now) {
  if (claim.from_start) scan_time_ += now - sent_at;
  if (claimed.unfinished) {
    go_on_scanning(claim, claimed);
    return true;
  }
  if (claim.from_start) {
    scanned_at_ = now;
    scan_cost_ = scan_time_;
  } else if (!claim.scans && !is_full(claim, claimed) && has_marks_ && scan_is_due(now, {})) {
    // There are no more messages after the marks. There may be some before them.
    scan_next_ = true;
    more_ = true;
    return true;
  }
  return false;
}

void Subscription::end_claim(const PlannedClaim& claim, const storage::Claimed& claimed,
                             const PollPace& pace, MonoTime sent_at, MonoTime now) {
  const bool full = is_full(claim, claimed);
  claiming_ -= claim.wanted;
  move_marks(claim, claimed);
  if (claimed.cut) note_cut(claim);
  if (claimed.next_due) {
    // Counted from the start of the request, which is too early rather than too late.
    const auto in = std::min<std::chrono::microseconds>(*claimed.next_due, longest_due);
    comes_due(sent_at + in + milliseconds{1});
  }
  if (note_scan(claim, claimed, sent_at, now)) return;
  if (full) full_trip_ = std::max(full_trip_, claim.trip);
  if (more_ && full_trip_ > claim.trip)
    return;  // a trip that began later has found that there are more
  if (!full && more_ && (!claim.scans || !was_alone(claim))) {
    // The end of a burst. Claim again, and ask for the next due time: another claim may have locked
    // messages for a moment.
    more_ = false;
    comes_due(now);
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

bool Subscription::scan_is_due(MonoTime now, MonoDuration interval) const {
  const auto pause = std::min<MonoDuration>(scan_cost_ * scan_share, longest_scan_pause);
  return now - scanned_at_ >= std::max<MonoDuration>(interval, pause);
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
