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
  storage::QueueMark place{};  // its place in the queue when it was claimed
  std::stop_source stop;
  std::atomic<bool> shutting_down{false};  // true: `stop` fired because of a shutdown
  std::atomic<bool> committing{false};     // its row may be locked by the handler's own transaction
  std::atomic<bool> holds_lease{false};    // its open transaction protects the lease
  std::atomic<bool> lease_lost{false};  // its transaction came too late, after the lease was lost
  std::atomic<bool> acked{false};       // the handler's own transaction has acked it
  /// For a message of a stream: waits until the messages before it are settled. Called before the
  /// handler's transaction begins. Returns false if the handler has to stop first.
  std::function<bool()> await_predecessors;
  /// The handler's own transaction has snoozed the message for this long. Written and read by the
  /// handler's thread.
  std::optional<std::chrono::milliseconds> comes_back_in;
  /// Called by the handler's thread before its transaction settles the message and commits. Returns
  /// false if the settlement must not wait for locks of other transactions, because no thread can
  /// replace this one.
  std::function<bool()> before_commit;

  // Guarded by the mutex of the dispatcher's ledger.
  int lost_leases = 0;
  MonoTime lease_end;               // by our clock, counted from before the claim was sent
  std::optional<MonoTime> expires;  // the message's own expiry
  MonoTime started;                 // when it began; valid while it runs
  bool running = false;
  bool renewed = false;  // the renewal may have moved its row
  bool stop_requested = false;
  bool given_up = false;                    // its handler hangs: the lease is no longer renewed
  MonoTime commit_began = MonoTime::max();  // when its commit began, after the handler returned
  bool relieved = false;  // the commit takes long: another thread calls handlers meanwhile

  // Guarded by the mutex of the worker pool.
  bool hangs = false;       // its thread no longer counts as live
  bool gave_limit = false;  // it no longer counts towards the concurrency limit of its handler
  bool replaced = false;    // another thread has replaced its thread
};

using DeliveryPtr = std::shared_ptr<Delivery>;

}  // namespace dovetail::runtime
