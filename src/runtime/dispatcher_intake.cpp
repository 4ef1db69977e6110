// Decides which claimed messages a dispatcher holds, and which it gives back.
#include <algorithm>

#include "runtime/dispatcher.hpp"

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;
using std::chrono::milliseconds;

/// The delay of a message that this process has claimed again after it lost the lease. The old
/// handler can end in that time.
constexpr milliseconds successor_delay{500};
/// The same if the handler's own transaction is about to end.
constexpr milliseconds returning_delay{10};
/// A message is handled alone after its lease was lost this many times. One loss may be an
/// accident.
constexpr int suspicious_losses = 2;

}  // namespace

void Dispatcher::take_in(const TripClaim& claim, storage::Claimed claimed, MonoTime sent_at) {
  const auto count = claimed.entries.size();
  scope_.count_metric("dovetail_claimed_total", count);
  if (scope_.log.enabled(LogLevel::debug)) {
    scope_.log.write(LogLevel::debug, scope_.event("claimed"),
                     {{"store", scope_.database.name()},
                      {"owner", source_->owner().to_string()},
                      {"count", count}});
  }
  {
    const std::lock_guard lock(shared_.ledger.mutex);
    const PollPace pace{options_.poll_interval, listener_.hears_others()
                                                    ? options_.idle_poll_interval
                                                    : options_.poll_interval};
    shared_.planner.end_claim(claim, claimed, pace, sent_at, clock().mono());
  }
  auto arrivals = intake_.take(*claim.subscription, std::move(claimed.entries), sent_at);
  const std::lock_guard lock(shared_.ledger.mutex);
  shared_.planner.take_in(claim);
  for (auto& each : arrivals.refused) settle_later(std::move(each));
  isolate_suspect(arrivals.deliveries);
  std::vector<DeliveryPtr> held;
  held.reserve(arrivals.deliveries.size());
  std::string halted;  // a stream whose last delivery is not held
  for (const auto& delivery : arrivals.deliveries) {
    const auto stream = delivery->claimed.message.stream.value_or("");
    if (!stream.empty() && stream == halted) {
      shared_.planner.release(delivery->claimed.claim.id);
      give_back(*delivery);
    } else if (!hold(delivery, sent_at, held)) {
      halted = stream;
    }
  }
  pool_.submit(*this, std::move(held));
}

/// Returns whether the delivery is held.
bool Dispatcher::hold(const DeliveryPtr& delivery, MonoTime sent_at,
                      std::vector<DeliveryPtr>& held) {
  const auto& claim = delivery->claimed.claim;
  if (shared_.stopping ||
      (shared_.planner.has_suspect() && !shared_.planner.is_suspect(claim.id))) {
    give_back(*delivery);
    return false;
  }
  if (const auto other = shared_.ledger.add(delivery)) {
    // This process has lost the lease, and its handler still runs. Stop that handler and delay the
    // message, so that two handlers never have it at once. Or the handler has just snoozed the
    // message, and is about to return.
    const bool returns = other->committing;
    if (!returns) keeper_.note_lost(*other, sent_at);
    const auto delay =
        std::min<milliseconds>(options_.lease, returns ? returning_delay : successor_delay);
    settle_later(finished_of(*delivery, {.kind = Kind::snooze, .claim = claim, .delay = delay}));
    return false;
  }
  shared_.planner.add(*delivery->subscription);
  if (delivery->claimed.message.stream) {
    delivery->await_predecessors = [this, raw = delivery.get()] {
      return await_predecessors(*raw);
    };
  }
  if (shared_.lines.admit(delivery)) held.push_back(delivery);
  return true;
}

/// A message may crash its workers if its lease was lost repeatedly, each time by a process that
/// did not return. Such a message is handled alone.
void Dispatcher::isolate_suspect(const std::vector<DeliveryPtr>& deliveries) {
  const auto first = std::ranges::find_if(deliveries, [this](const DeliveryPtr& delivery) {
    return delivery->lost_leases >= suspicious_losses &&
           !shared_.ledger.holds(delivery->claimed.claim.id);
  });
  if (first == deliveries.end() || shared_.stopping || shared_.planner.has_suspect()) return;
  give_back_waiting();
  shared_.planner.isolate((*first)->claimed.claim.id);
}

}  // namespace dovetail::runtime
