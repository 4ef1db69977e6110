#include "runtime/ledger.hpp"

#include <algorithm>

namespace dovetail::runtime {
namespace {

/// The delay before a settlement that was put aside is retried.
constexpr std::chrono::milliseconds aside_delay{200};
/// How long a topic counts as blocked after its last settlement that was blocked.
constexpr std::chrono::milliseconds blocked_memory{5'000};

}  // namespace

Finished finished_of(const Delivery& delivery, storage::Settlement settlement) {
  const auto outcome = outcome_of(settlement, delivery.claimed.message);
  return {.settlement = std::move(settlement),
          .subscription = delivery.subscription,
          .priority = delivery.claimed.message.priority,
          .place = delivery.place,
          .lease_end = delivery.lease_end,
          .stream = delivery.claimed.message.stream.value_or(""),
          .topic = delivery.claimed.message.topic,
          .outcome = outcome};
}

DeliveryPtr Ledger::add(const DeliveryPtr& delivery) {
  auto& held = held_[delivery->claimed.claim.id];
  if (held) return held;
  held = delivery;
  bytes_ += delivery->claimed.message.payload.size();
  return nullptr;
}

bool Ledger::remove(const DeliveryPtr& delivery) {
  const auto held = held_.find(delivery->claimed.claim.id);
  if (held == held_.end() || held->second != delivery) return false;
  held_.erase(held);
  bytes_ -= delivery->claimed.message.payload.size();
  return true;
}

DeliveryPtr Ledger::find(const Claim& claim) const {
  const auto held = held_.find(claim.id);
  return held != held_.end() && held->second->claimed.claim == claim ? held->second : nullptr;
}

void Ledger::note_settled(const Finished& finished) {
  const auto found = unsettled_.find(finished.stream);
  if (found != unsettled_.end() && --found->second == 0) unsettled_.erase(found);
}

std::size_t Ledger::unsettled(const std::string& stream) const {
  const auto found = unsettled_.find(stream);
  return found == unsettled_.end() ? 0 : found->second;
}

void Ledger::finish(Finished finished, MonoTime now) {
  if (!finished.stream.empty()) ++unsettled_[finished.stream];
  finished_.push_back(std::move(finished));
  first_finished_ = std::min(first_finished_, now);
}

std::vector<Finished> Ledger::take(bool stopping, MonoTime now) {
  auto taken = std::exchange(finished_, {});
  first_finished_ = MonoTime::max();
  const auto due = std::partition(aside_.begin(), aside_.end(), [&](const Finished& each) {
    return each.retry_at > now && !stopping;
  });
  std::move(due, aside_.end(), std::back_inserter(taken));
  aside_.erase(due, aside_.end());
  return taken;
}

void Ledger::put_back(std::vector<Finished> finished, MonoTime now) {
  if (finished.empty()) return;
  std::ranges::move(finished, std::back_inserter(finished_));
  first_finished_ = std::min(first_finished_, now);
}

void Ledger::put_aside(std::vector<Finished>& finished, const std::vector<MessageId>& settleable,
                       MonoTime now) {
  const auto stays = [&](const Finished& each) {
    return each.lease_end <= now ||
           std::ranges::binary_search(settleable, each.settlement.claim.id);
  };
  const auto blocked = std::partition(finished.begin(), finished.end(), stays);
  for (auto each = blocked; each != finished.end(); ++each) {
    each->retry_at = now + aside_delay;
    aside_.push_back(std::move(*each));
  }
  finished.erase(blocked, finished.end());
}

void Ledger::note_blocked(const std::string& topic, MonoTime now) {
  std::erase_if(blocked_, [&](const auto& each) { return now - each.second > blocked_memory; });
  blocked_[topic] = now;
}

bool Ledger::was_blocked(const std::string& topic, MonoTime now) const {
  const auto found = blocked_.find(topic);
  return found != blocked_.end() && now - found->second <= blocked_memory;
}

Load Ledger::load() const {
  Load load{.held = held_.size(),
            .running = running,
            .bytes = bytes_,
            .finished = finished_.size(),
            .first_finished = first_finished_,
            .resets_lost_leases = !lost_leases.empty() || !uncharged.empty()};
  for (const auto& each : aside_) load.retry_aside = std::min(load.retry_aside, each.retry_at);
  return load;
}

}  // namespace dovetail::runtime
