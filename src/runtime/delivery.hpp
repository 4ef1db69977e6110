// A claimed message on its way through a handler.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "dovetail/clock.hpp"
#include "dovetail/queue.hpp"
#include "runtime/handler_registry.hpp"
#include "runtime/subscription.hpp"

namespace dovetail::runtime {

struct Delivery {
  ClaimedMessage claimed;
  const RegisteredHandler* handler = nullptr;
  Subscription* subscription = nullptr;
  storage::QueueMark place{};  // where it was found in the queue
  std::stop_source stop;
  std::atomic<bool> shutting_down{false};  // why `stop` fired
  std::atomic<bool> committing{false};     // its row may be locked by the handler's own transaction
  std::atomic<bool> holds_lease{false};    // its transaction keeps everybody from taking the lease
  std::atomic<bool> lease_lost{false};     // its transaction came too late
  std::atomic<bool> acked{false};          // by the handler's own transaction
  /// Of a stream: waits until the messages before it are settled. Called before the handler's
  /// transaction begins. False: they were not, before the handler had to stop.
  std::function<bool()> await_predecessors;
  /// The handler's own transaction has snoozed the message for this long. Written and read by the
  /// handler's thread.
  std::optional<std::chrono::milliseconds> comes_back_in;
  /// Called by the handler's thread before its transaction settles the message and commits. False:
  /// the settlement must not wait for locks of others, because no thread can take the place of this
  /// one.
  std::function<bool()> before_commit;

  // Guarded by the mutex of the dispatcher's ledger.
  int lost_leases = 0;
  MonoTime lease_end;               // by our clock, counted from before the claim was sent
  std::optional<MonoTime> expires;  // the message's own expiry
  MonoTime started;                 // while it runs
  bool running = false;
  bool renewed = false;  // its row may lie elsewhere now
  bool stop_requested = false;
  bool given_up = false;                    // its handler hangs: the lease is no longer renewed
  MonoTime commit_began = MonoTime::max();  // the handler has returned, and its transaction ends
  bool relieved = false;  // that takes long: another thread calls handlers meanwhile

  // Guarded by the mutex of the worker pool.
  bool hangs = false;       // its thread does not count any more
  bool gave_limit = false;  // its place in the limit of its handler belongs to another delivery
  bool replaced = false;    // another thread has taken the place of the one that hangs
};

using DeliveryPtr = std::shared_ptr<Delivery>;

}  // namespace dovetail::runtime
