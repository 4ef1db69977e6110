// The places in the queue where the claims of a subscription begin.
//
// Claims usually begin at marks: the places where earlier claims found their first messages. So
// they do not read messages of other topics, or dead index entries, again and again. From time to
// time a claim scans: it begins at the start of the queue, and finds the messages before the marks.
// A long scan takes several round trips, and new messages are claimed in between.
//
// It does no I/O and reads no clock: events and times come in, decisions go out.
//
// Threads: guarded by the dispatcher's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "dovetail/clock.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::runtime {

/// A claim of one subscription within a round trip.
struct PlannedClaim {
  std::uint64_t trip = 0;  // trips are numbered in the order of their starts
  std::size_t wanted = 0;
  std::optional<storage::QueueMarks> after;  // absent: from the start of the queue
  bool scans = false;                        // scans the queue, perhaps in several round trips
  bool from_start = false;                   // the scan began at the start of the queue
  bool asks_next_due = false;
  bool rung = false;        // a message may have arrived before the claim began
  int scan_limit = 0;       // the number of messages to examine before other work gets its turn
  bool alone = false;       // no other claim of the subscription was under way when it began
  bool may_be_run = false;  // many messages may follow each other; see storage::RunOrder
};

/// True if there may be more messages than the claim has taken.
[[nodiscard]] inline bool is_full(const PlannedClaim& claim, const storage::Claimed& claimed) {
  return claimed.cut || claimed.entries.size() >= claim.wanted;
}

class QueueScan {
 public:
  /// `of_streams`: each claim moves a stream to the end of the line. So the place of a claimed
  /// message has no meaning.
  explicit QueueScan(bool of_streams = false) : of_streams_(of_streams) {}

  /// The reason for a claim.
  enum class Reason {
    rung,  ///< A message may have arrived.
    more,  ///< The last claim was full.
    poll,  ///< The time of a poll or of a due message has come.
  };
  /// Decides where the claim begins. Sets its places and its limit. Returns true if it continues a
  /// scan.
  bool begin(PlannedClaim& claim, Reason reason, MonoTime now);

  enum class Outcome {
    complete,
    unfinished,   ///< The scan continues in a later claim.
    scan_follows  ///< There are no more messages after the marks. The next claim scans.
  };
  Outcome end(const PlannedClaim& claim, const storage::Claimed& claimed, MonoTime sent_at,
              MonoTime now);
  /// The claim failed. Other claims may have skipped messages that it locked for a moment.
  void cancel() { scan_next_ = true; }

  /// The message at `place` is ready again. The next claims begin there or earlier.
  void note_returned(int priority, const storage::QueueMark& place);

  /// True if messages have returned since the last call. A run would not find them.
  [[nodiscard]] bool take_returned() { return std::exchange(returned_, false); }
  /// True if a scan waits for its next part.
  [[nodiscard]] bool is_unfinished() const { return scan_place_.has_value(); }
  /// True if no other claim was under way at the same time.
  [[nodiscard]] bool was_alone(const PlannedClaim& claim) const {
    return claim.alone && latest_trip_ == claim.trip;
  }

 private:
  [[nodiscard]] bool is_due(MonoTime now, MonoDuration interval) const;
  void move_marks(const PlannedClaim& claim, const storage::Claimed& claimed);
  void note_cut(const PlannedClaim& claim);
  void keep_place(const PlannedClaim& claim, const storage::Claimed& claimed);

  bool of_streams_;
  std::uint64_t latest_trip_ = 0;  // the latest trip that began

  // The places where claims begin, by priority.
  storage::QueueMarks marks_{};
  bool has_marks_ = false;
  bool returned_ = false;
  std::uint64_t last_trip_overlapping_cut_ = 0;  // the latest trip that overlapped a cut claim

  bool scan_next_ = true;
  std::optional<storage::QueueMarks> scan_place_;  // where a scan of several round trips continues
  bool scan_from_start_ = false;                   // that scan began at the start of the queue
  MonoDuration scan_time_{};     // the time of that scan so far, without the pauses
  bool scan_postponed_ = false;  // a scan that was due let a new message go first
  MonoTime scanned_at_{};        // when a claim from the start of the queue last began or ended
  // The time that the last complete scan took. Before the first scan, a guess: it limits the pause
  // after a first scan that waited for a lock.
  MonoDuration last_scan_time_ = std::chrono::milliseconds{100};
  MonoDuration scan_cost_{};  // the shorter time of the last two complete scans
};

}  // namespace dovetail::runtime
