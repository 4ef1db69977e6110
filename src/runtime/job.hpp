// A claimed message on its way through this process.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>

#include "dovetail/clock.hpp"
#include "dovetail/outbox.hpp"
#include "runtime/handler_registry.hpp"
#include "runtime/subscription.hpp"

namespace dovetail::runtime {

struct Job {
  ClaimedMessage claimed;
  const RegisteredHandler* handler = nullptr;
  Subscription* subscription = nullptr;
  storage::QueueMark place{};  // where it was found in the queue
  std::stop_source stop;
  std::atomic<bool> shutting_down{false};  // why `stop` fired
  std::atomic<bool> committing{false};     // its row may be locked by the handler's own transaction

  std::atomic<bool> holds_lease{false};  // its transaction keeps everybody from taking it
  std::atomic<bool> lease_lost{false};   // its transaction came too late

  // Guarded by the dispatcher's mutex.
  int lost_leases = 0;
  MonoTime lease_end;  // by our clock, and on the safe side: from before the claim was sent
  std::optional<MonoTime> expires;  // the message's own expiry
  MonoTime started;                 // while it runs
  bool running = false;
  bool renewed = false;  // and may lie elsewhere now
  bool stop_requested = false;
  bool given_up = false;  // its handler hangs: the lease is no longer renewed
  bool replaced = false;  // another thread has taken the place of the one that hangs
};

using JobPtr = std::shared_ptr<Job>;

}  // namespace dovetail::runtime
