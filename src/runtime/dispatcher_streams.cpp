// Gives back deliveries that have not begun, and keeps the order of the deliveries of a stream.
#include "runtime/dispatcher.hpp"

namespace dovetail::runtime {
namespace {

/// The interval at which a handler that waits for its predecessors checks whether it has to stop.
constexpr std::chrono::milliseconds stop_look{20};

}  // namespace

// --- under the ledger's mutex

void Dispatcher::give_back_waiting() {
  planner_.release_suspect();
  auto waiting = lines_.take_waiting();
  for (auto& delivery : pool_.withdraw(*this)) {
    give_back_behind(*delivery);
    waiting.push_back(std::move(delivery));
  }
  for (const auto& delivery : waiting) {
    drop(delivery);
    give_back(*delivery);
  }
}

void Dispatcher::return_unstarted(const DeliveryPtr& delivery) {
  if (ledger_.find(delivery->claimed.claim) != delivery) return;  // given back with another one
  // If it is neither in the pool nor behind another one, a thread is about to begin it.
  const bool behind = lines_.is_behind(*delivery);
  if (!behind && !pool_.withdraw(*this, delivery)) return;
  give_back_behind(*delivery);
  drop(delivery);
  give_back(*delivery);
  // A message that waits for its predecessor does not show that too many messages are held.
  if (!behind) planner_.shrink(ledger_.running, clock().mono());
}

// --- streams

void Dispatcher::give_back_behind(const Delivery& delivery) {
  for (const auto& each : lines_.cut_behind(delivery)) {
    drop(each);
    give_back(*each);
  }
}

void Dispatcher::submit_next(const Delivery& delivery) {
  if (auto next = lines_.advance(delivery)) {
    pool_.submit(*this, {std::move(next)});
  } else if (delivery.acked && delivery.claimed.message.stream) {
    // Its own transaction has settled it: no round trip follows that would find the next message.
    delivery.subscription->comes_due(clock().mono());
  }
}

/// A message that its handler's transaction settles must not be settled before its predecessors:
/// after a crash, they would be delivered after it. An engine with one writer cannot settle them
/// while the transaction is open, so they are settled before it begins.
bool Dispatcher::await_predecessors(const Delivery& delivery) {
  const auto& stream = *delivery.claimed.message.stream;
  std::unique_lock lock(ledger_.mutex);
  while (ledger_.unsettled(stream) > 0) {
    const auto now = clock().mono();
    if (now >= delivery.lease_end || delivery.stop.stop_requested()) return false;
    clock().wait_until(state_.stream_settled, lock, now + stop_look);
  }
  return true;
}

}  // namespace dovetail::runtime
