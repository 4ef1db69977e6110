// The topics that a dispatcher claims together: when it claims them, and how many. QueueScan
// decides from which place in the queue.
//
// All handlers without a concurrency limit share one subscription. Each handler with a limit has
// its own, so that its messages are claimed only when it has room, and its backlog does not delay
// other handlers.
//
// It does no I/O and reads no clock: events and times come in, decisions go out.
//
// Threads: guarded by the dispatcher's mutex.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "dovetail/clock.hpp"
#include "dovetail/platform.hpp"
#include "runtime/handler_registry.hpp"
#include "runtime/queue_scan.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::runtime {

/// The polling intervals in the absence of events.
struct PollPace {
  MonoDuration interval;
  MonoDuration idle_interval;  // while idle, if announcements of other processes are received
};

class Subscription {
 public:
  enum class Kind { messages, streams };
  /// `limited`: the only handler of the subscription. Null: all handlers without a limit.
  Subscription(std::optional<storage::TopicFilter> topics, const RegisteredHandler* limited,
               int max_attempts, Kind kind = Kind::messages)
      : topics_(std::move(topics)),
        limited_(limited),
        max_attempts_(max_attempts),
        kind_(kind),
        dormant_(kind == Kind::streams),
        scan_(kind == Kind::streams) {}

  /// True if it claims messages of streams; see stream.hpp.
  [[nodiscard]] bool claims_streams() const { return kind_ == Kind::streams; }
  /// True while no streams are in use: no claims until wake().
  [[nodiscard]] bool is_dormant() const { return dormant_; }
  void wake();

  /// Null: all topics.
  [[nodiscard]] const storage::TopicFilter* topics() const { return topics_ ? &*topics_ : nullptr; }
  [[nodiscard]] const RegisteredHandler* limited() const { return limited_; }
  [[nodiscard]] int max_attempts() const { return max_attempts_; }
  [[nodiscard]] bool takes(std::string_view topic) const {
    return !topics_ || topics_->takes(topic);
  }

  // --- the messages that this process holds
  std::size_t held = 0;     // claimed and not finished
  std::size_t waiting = 0;  // held, and not begun
  std::size_t running = 0;  // held, and with a running handler

  /// The number of waiting messages that could begin if threads were free.
  [[nodiscard]] std::size_t startable() const {
    if (limited_ == nullptr) return waiting;
    const auto limit = static_cast<std::size_t>(limited_->options.concurrency);
    return std::min(waiting, limit - std::min(limit, running));
  }

  /// The largest number of messages to claim now. `batch` is the largest claim.
  [[nodiscard]] std::size_t room(std::size_t batch) const;
  /// Records the time that a handler took.
  void note_handled(MonoDuration took);

  // --- when to claim
  /// A message may have arrived: claim at once.
  void ring() { rung_ = true; }
  /// A claim is due at `time` at the latest.
  void poll_by(MonoTime time) { poll_at_ = std::min(poll_at_, time); }
  /// A message is expected to come due at `time`.
  void note_due_at(MonoTime time) { due_at_ = std::min(due_at_, time); }
  /// The message at `place` is ready again. The next claims begin there or earlier.
  void note_returned(int priority, const storage::QueueMark& place) {
    scan_.note_returned(priority, place);
  }
  [[nodiscard]] MonoTime next_poll() const { return std::min(poll_at_, due_at_); }
  [[nodiscard]] bool is_due(MonoTime now) const {
    return !dormant_ && (rung_ || more_ || scan_.is_unfinished() || now >= next_poll());
  }

  // --- a claim, from its beginning to its end
  [[nodiscard]] PlannedClaim begin_claim(std::size_t wanted, std::uint64_t trip, MonoTime now);
  void end_claim(const PlannedClaim& claim, const storage::Claimed& claimed, const PollPace& pace,
                 MonoTime sent_at, MonoTime now);
  /// The round trip failed.
  void cancel_claim(const PlannedClaim& claim);
  [[nodiscard]] std::size_t claiming() const { return claiming_; }

 private:
  std::optional<storage::TopicFilter> topics_;
  const RegisteredHandler* limited_;
  int max_attempts_;
  Kind kind_;
  bool dormant_;
  MonoDuration handler_time_{};  // average time per message, for a handler with a limit

  std::size_t claiming_ = 0;  // messages requested by claims under way
  bool rung_ = true;
  bool more_ = false;            // the last claim was full
  std::uint64_t full_trip_ = 0;  // the latest trip whose claim was full
  MonoTime poll_at_{};           // a claim is due then, even without an event
  // The earliest known due time. Concurrent round trips may only move it earlier; a claim that
  // starts after it clears it.
  MonoTime due_at_ = MonoTime::max();
  int idle_polls_ = 0;

  QueueScan scan_;
};

/// The subscriptions that these handlers need.
[[nodiscard]] std::deque<Subscription> subscriptions_of(const HandlerRegistry& handlers,
                                                        UnknownTopics unknown);

}  // namespace dovetail::runtime
