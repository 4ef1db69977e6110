// Gives back deliveries that have not begun, and keeps the order of the deliveries of a stream.
#include "runtime/dispatcher.hpp"

namespace dovetail::runtime {
namespace {

/// The interval at which a handler that waits for its predecessors checks whether it has to stop.
constexpr std::chrono::milliseconds stop_look{20};

}  // namespace

// --- under the ledger's mutex

void Dispatcher::give_back_waiting() {
  shared_.planner.release_suspect();
  auto waiting = shared_.lines.take_waiting();
  for (auto& delivery : pool_.withdraw(*this)) {
    release_successors(*delivery);
    waiting.push_back(std::move(delivery));
  }
  for (const auto& delivery : waiting) {
    drop(delivery);
    give_back(*delivery);
  }
}

void Dispatcher::return_unstarted(const DeliveryPtr& delivery) {
  if (shared_.ledger.find(delivery->claimed.claim) != delivery)
    return;  // given back with another one
  // If it is neither in the pool nor behind another one, a thread is about to begin it.
  const bool behind = shared_.lines.is_behind(*delivery);
  if (!behind && !pool_.withdraw(*this, delivery)) return;
  release_successors(*delivery);
  drop(delivery);
  give_back(*delivery);
  // A message that waits for its predecessor does not show that too many messages are held.
  if (!behind) shared_.planner.shrink(shared_.ledger.running, clock().mono());
}

// --- streams

void Dispatcher::release_successors(const Delivery& delivery) {
  for (const auto& each : shared_.lines.remove_successors(delivery)) {
    drop(each);
    give_back(*each);
  }
}

void Dispatcher::submit_next(const Delivery& delivery) {
  if (auto next = shared_.lines.advance(delivery)) {
    pool_.submit(*this, {std::move(next)});
  } else if (delivery.acked && delivery.claimed.message.stream) {
    // Its own transaction has settled it: no round trip follows that would find the next message.
    shared_.planner.note_due_at(*delivery.subscription, clock().mono());
  }
}

/// A message that its handler's transaction settles must not be settled before its predecessors:
/// after a crash, they would be delivered after it. An engine with one writer cannot settle them
/// while the transaction is open, so they are settled before it begins.
bool Dispatcher::await_predecessors(const Delivery& delivery) {
  const auto& stream = *delivery.claimed.message.stream;
  std::unique_lock lock(shared_.ledger.mutex);
  while (shared_.ledger.unsettled(stream) > 0) {
    const auto now = clock().mono();
    if (now >= delivery.lease_end || delivery.stop.stop_requested()) return false;
    clock().wait_until(shared_.stream_settled, lock, now + stop_look);
  }
  return true;
}

}  // namespace dovetail::runtime
