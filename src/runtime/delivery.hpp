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

/// The fields are grouped by what guards them.
struct Delivery {
  // --- constant: set before another thread sees the delivery

  ClaimedMessage claimed;
  const RegisteredHandler* handler = nullptr;
  Subscription* subscription = nullptr;
  storage::QueueMark place{};       // its place in the queue when it was claimed
  MonoTime due{};                   // when it was due, by our clock
  int lost_leases = 0;              // how often its lease was lost before
  std::optional<MonoTime> expires;  // the message's own expiry
  /// For a message of a stream: waits until the messages before it are settled. Called before the
  /// handler's transaction begins. Returns false if the handler has to stop first.
  std::function<bool()> await_predecessors;

  // --- any thread: atomic

  std::stop_source stop;
  std::atomic<bool> shutting_down{false};  // true: `stop` fired because of a shutdown
  std::atomic<bool> committing{false};     // its row may be locked by the handler's own transaction
  std::atomic<bool> holds_lease{false};    // its open transaction protects the lease
  std::atomic<bool> lease_lost{false};  // its transaction came too late, after the lease was lost
  std::atomic<bool> acked{false};       // the handler's own transaction has acked it

  // --- the thread that calls the handler, and no other

  /// Called before the handler's transaction settles the message and commits. Returns false if the
  /// settlement must not wait for locks of other transactions, because no thread can replace this
  /// one.
  std::function<bool()> before_commit;
  /// The handler's own transaction has snoozed the message for this long.
  std::optional<std::chrono::milliseconds> snoozed_for;
  /// Settlements of the topic were blocked a moment ago, and no thread can replace this one: check
  /// that the message can be settled before the handler is called.
  bool checks_first = false;
  bool blocked = false;  // a lock of another transaction kept it from being settled

  // --- the mutex of the dispatcher's ledger

  MonoTime lease_end;  // by our clock, counted from before the claim was sent
  MonoTime started;    // when it began; valid while it runs
  bool running = false;
  bool renewed = false;  // the renewal may have moved its row
  bool stop_requested = false;
  bool given_up = false;                    // its handler hangs: the lease is no longer renewed
  MonoTime commit_began = MonoTime::max();  // when its commit began, after the handler returned
  bool thread_added = false;  // the commit takes long: another thread calls handlers meanwhile

  // --- the mutex of the worker pool

  bool hangs = false;           // its thread no longer counts as live
  bool limit_released = false;  // it no longer counts towards the concurrency limit of its handler
  bool replaced = false;        // another thread has replaced its thread
};

using DeliveryPtr = std::shared_ptr<Delivery>;

}  // namespace dovetail::runtime
