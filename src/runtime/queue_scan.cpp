#include "runtime/queue_scan.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;

/// At this interval, a claim begins at the start of the queue.
constexpr milliseconds scan_interval{1'000};
/// Claims from the start may take at most one part in this many of the time. They become rarer if
/// they pass many messages of other topics, or many dead index entries.
constexpr int scan_share = 50;
constexpr milliseconds longest_scan_pause{60'000};
/// A new message is claimed before a claim from the start that takes longer than this.
constexpr milliseconds cheap_scan{2};
/// The number of messages that a claim examines at once: at first, while there is no other work,
/// and later, when new messages should not wait for it (about half a millisecond).
constexpr int first_scan_limit = 20'000;
constexpr int usual_scan_limit = 2'000;

std::size_t lane_of(int priority) {
  return static_cast<std::size_t>(priority - storage::lowest_priority);
}

bool is_before(const storage::QueueMark& a, const storage::QueueMark& b) {
  return std::tie(a.ready_at, a.id, a.row) < std::tie(b.ready_at, b.id, b.row);
}

}  // namespace

void QueueScan::note_returned(int priority, const storage::QueueMark& place) {
  const auto lane = lane_of(priority);
  if (lane >= marks_.size()) return;
  returned_ = true;
  const auto move_back = [&](std::optional<storage::QueueMark>& mark) {
    if (mark && is_before(place, *mark)) mark = place;
  };
  move_back(marks_[lane]);
  if (scan_place_) move_back((*scan_place_)[lane]);
}

bool QueueScan::is_due(MonoTime now, MonoDuration interval) const {
  const auto pause = std::min<MonoDuration>(scan_cost_ * scan_share, longest_scan_pause);
  return now - scanned_at_ >= std::max<MonoDuration>(interval, pause);
}

bool QueueScan::begin(PlannedClaim& claim, Reason reason, MonoTime now) {
  latest_trip_ = claim.trip;
  const auto interval = reason == Reason::poll
                            ? MonoDuration{}
                            : std::chrono::duration_cast<MonoDuration>(scan_interval);
  const bool wants_scan = scan_place_ || scan_next_ || !has_marks_ || is_due(now, interval);
  // New messages do not wait for a long scan. But they go first only once. Then the scan has its
  // turn.
  const bool is_long = scan_place_ || scan_cost_ > cheap_scan;
  scan_postponed_ =
      wants_scan && reason == Reason::rung && has_marks_ && is_long && !scan_postponed_;
  claim.scans = wants_scan && !scan_postponed_;
  claim.scan_limit = has_marks_ ? usual_scan_limit : first_scan_limit;
  if (!claim.scans) {
    claim.after = marks_;
    return false;
  }
  if (scan_place_) {
    claim.after = std::exchange(scan_place_, std::nullopt);
    claim.from_start = scan_from_start_;
    return true;
  }
  claim.from_start = true;
  scan_next_ = false;
  scan_time_ = {};
  scanned_at_ = now;
  return false;
}

QueueScan::Outcome QueueScan::end(const PlannedClaim& claim, const storage::Claimed& claimed,
                                  MonoTime sent_at, MonoTime now) {
  move_marks(claim, claimed);
  if (claimed.cut) note_cut(claim);
  if (claim.from_start) scan_time_ += now - sent_at;
  if (claimed.unfinished) {
    keep_place(claim, claimed);
    return Outcome::unfinished;
  }
  if (claim.from_start) {
    scanned_at_ = now;
    // One slow scan may have waited for a lock or for a frozen server.
    scan_cost_ = std::min(scan_time_, last_scan_time_);
    last_scan_time_ = scan_time_;
  } else if (!claim.scans && !is_full(claim, claimed) && has_marks_ && is_due(now, {})) {
    scan_next_ = true;
    return Outcome::scan_follows;
  }
  return Outcome::complete;
}

/// The next claims begin where this claim found its first messages, or after the place up to which
/// it found none.
///
/// A claim skips messages that another claim locks for a moment. Only a claim that was alone has
/// seen all messages.
void QueueScan::move_marks(const PlannedClaim& claim, const storage::Claimed& claimed) {
  const bool saw_all = was_alone(claim) && !claimed.unfinished;
  storage::QueueMarks places{};
  for (const auto& entry : claimed.entries) {
    if (of_streams_) break;
    const auto lane = lane_of(entry.claimed.message.priority);
    // A run leaves out no message: the next claims begin at its end.
    if (lane >= places.size() || (places[lane] && !claimed.is_run)) continue;
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
    if (forward && claim.trip <= last_trip_overlapping_cut_) continue;
    marks_[lane] = places[lane];
    has_marks_ = true;
  }
}

/// A claim that reached its byte limit has locked messages that it did not take. Concurrent claims
/// have skipped these messages, so their marks must not hide them.
void QueueScan::note_cut(const PlannedClaim& claim) {
  if (was_alone(claim)) return;
  last_trip_overlapping_cut_ = latest_trip_;
  if (!claim.after) {
    scan_next_ = true;
    return;
  }
  for (std::size_t lane = 0; lane < marks_.size(); ++lane) {
    const auto& began_at = (*claim.after)[lane];
    if (marks_[lane] && (!began_at || is_before(*began_at, *marks_[lane]))) marks_[lane] = began_at;
  }
}

void QueueScan::keep_place(const PlannedClaim& claim, const storage::Claimed& claimed) {
  if (!claim.scans && scan_place_) return;  // the waiting scan will pass this place
  scan_from_start_ = claim.from_start;
  scan_place_ = claim.after.value_or(storage::QueueMarks{});
  for (std::size_t lane = 0; lane < claimed.passed.size(); ++lane) {
    if (claimed.passed[lane]) (*scan_place_)[lane] = claimed.passed[lane];
  }
}

}  // namespace dovetail::runtime
