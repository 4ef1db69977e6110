#include "transport/publish_planner.hpp"

#include <algorithm>

namespace dovetail::transport {
namespace {

using runtime::Subscription;

/// The part of the window that is kept for streams while there are some.
constexpr std::size_t stream_share = 4;

}  // namespace

PublishPlanner::PublishPlanner(std::size_t window, std::size_t lanes, int max_attempts)
    : window_(window), lanes_(lanes), max_attempts_(max_attempts) {}

void PublishPlanner::set_topics(const Topics& topics) {
  if (topics.empty()) return;
  const storage::TopicFilter filter{.topics = topics};
  const bool had_streams = streams_ && !streams_->is_dormant();
  messages_ = std::make_shared<Subscription>(filter, nullptr, max_attempts_);
  streams_ =
      std::make_shared<Subscription>(filter, nullptr, max_attempts_, Subscription::Kind::streams);
  if (had_streams) streams_->wake();
}

std::size_t PublishPlanner::room(bool streams) const {
  const bool has_streams = !streams_->is_dormant() && window_ > 1;
  const auto kept = has_streams ? std::max<std::size_t>(1, window_ / stream_share) : 0;
  const auto limit = streams ? window_ : window_ - kept;
  const auto free = limit - std::min(limit, held_);
  const auto share = streams ? std::max<std::size_t>(1, kept) : (limit + lanes_ - 1) / lanes_;
  return std::min(free, share);
}

std::optional<LaneClaim> PublishPlanner::plan(bool streams, MonoTime now) {
  const auto& subscription = of(streams);
  if (!subscription || !subscription->is_due(now)) return std::nullopt;
  const auto wanted = room(streams);
  if (wanted == 0) return std::nullopt;
  held_ += wanted;
  return LaneClaim{subscription, subscription->begin_claim(wanted, ++trips_, now)};
}

MonoTime PublishPlanner::next_poll(bool streams) const {
  const auto& subscription = of(streams);
  const bool waits = !subscription || subscription->is_dormant() || room(streams) == 0;
  return waits ? MonoTime::max() : subscription->next_poll();
}

void PublishPlanner::ring() {
  for (const auto& each : {messages_, streams_}) {
    if (each) each->ring();
  }
}

void PublishPlanner::poll_by(MonoTime time) {
  for (const auto& each : {messages_, streams_}) {
    if (each) each->poll_by(time);
  }
}

void PublishPlanner::end_claim(const LaneClaim& claim, const storage::Claimed& claimed,
                               const runtime::PollPace& pace, MonoTime sent_at, MonoTime now) {
  held_ -= claim.plan.wanted - std::min(claim.plan.wanted, claimed.entries.size());
  claim.subscription->end_claim(claim.plan, claimed, pace, sent_at, now);
  if (claimed.has_streams) streams_->wake();
}

void PublishPlanner::cancel_claim(const LaneClaim& claim) {
  held_ -= claim.plan.wanted;
  claim.subscription->cancel_claim(claim.plan);
}

void PublishPlanner::note_returned(bool streams, int priority, const storage::QueueMark& place) {
  if (const auto& each = of(streams)) each->note_returned(priority, place);
}

void PublishPlanner::note_due_at(bool streams, MonoTime time) {
  if (const auto& each = of(streams)) each->note_due_at(time);
}

}  // namespace dovetail::transport
