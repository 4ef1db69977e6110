// Decides when a lane of a route claims messages, and how many.
//
// Two subscriptions: one for messages without a stream, one for streams. The window limits the
// messages of all lanes together that are claimed and not published yet. While there are streams, a
// quarter of the window is kept for them.
//
// It does no I/O and reads no clock: events and times come in, decisions go out.
//
// Threads: the caller's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/subscription.hpp"

namespace dovetail::transport {

/// A claim under way. It keeps its subscription, which may have been replaced, and its topics.
struct LaneClaim {
  std::shared_ptr<runtime::Subscription> subscription;
  runtime::PlannedClaim plan;
};

class PublishPlanner {
 public:
  using Topics = std::set<std::string, std::less<>>;

  /// The lanes for messages share the window.
  PublishPlanner(std::size_t window, std::size_t lanes, int max_attempts);

  /// Without topics, there is nothing to claim. New topics may have messages anywhere in the queue:
  /// the next claims begin at its start.
  void set_topics(const Topics& topics);

  /// Returns the claim to make now, or nullopt. Its messages count as held from now on.
  [[nodiscard]] std::optional<LaneClaim> plan(bool streams, MonoTime now);
  /// When to call plan() again, unless an event comes earlier.
  [[nodiscard]] MonoTime next_poll(bool streams) const;

  // --- events

  void ring();
  void poll_by(MonoTime time);
  void end_claim(const LaneClaim& claim, const storage::Claimed& claimed,
                 const runtime::PollPace& pace, MonoTime sent_at, MonoTime now);
  /// The round trip failed.
  void cancel_claim(const LaneClaim& claim);
  /// The message at `place` is ready again.
  void note_returned(bool streams, int priority, const storage::QueueMark& place);
  /// A message is expected to come due at `time`.
  void note_due_at(bool streams, MonoTime time);
  /// Messages of a claim have been published, or were given back.
  void release(std::size_t messages) { held_ -= messages; }

  [[nodiscard]] std::size_t held() const { return held_; }

 private:
  [[nodiscard]] const std::shared_ptr<runtime::Subscription>& of(bool streams) const {
    return streams ? streams_ : messages_;
  }
  [[nodiscard]] std::size_t room(bool streams) const;

  const std::size_t window_;
  const std::size_t lanes_;
  const int max_attempts_;
  std::shared_ptr<runtime::Subscription> messages_;  // null: there are no topics
  std::shared_ptr<runtime::Subscription> streams_;
  std::size_t held_ = 0;
  std::uint64_t trips_ = 0;
};

}  // namespace dovetail::transport
