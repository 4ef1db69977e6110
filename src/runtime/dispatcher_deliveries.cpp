// The beginning and the end of a dispatcher's deliveries.
#include <algorithm>

#include "runtime/dispatcher.hpp"
#include "storage/row_hint.hpp"

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;
using std::chrono::milliseconds;

}  // namespace

// --- the handlers

/// Called by a thread of the pool that is about to call the handler.
bool Dispatcher::begin(const DeliveryPtr& delivery) {
  const std::lock_guard lock(shared_.ledger.mutex);
  const auto now = clock().mono();
  const auto id = delivery->claimed.claim.id;
  const bool unwanted =
      shared_.stopping || (shared_.planner.has_suspect() && !shared_.planner.is_suspect(id));
  // By the database's clock the lease may still be held. Then other owners need not wait until it
  // expires.
  if (unwanted || delivery->lease_end - keeper_.safety_margin() <= now) {
    release_successors(*delivery);
    drop(delivery);
    give_back(*delivery);
    return false;
  }
  if (delivery->expires && *delivery->expires <= now) {
    drop(delivery);
    settle_later(finished_of(*delivery, {.kind = Kind::fail,
                                         .claim = delivery->claimed.claim,
                                         .error = "expired before it was handled",
                                         .charge = 0,
                                         .on_stream_failure = StreamFailure::park}));
    submit_next(*delivery);
    return false;
  }
  if (shared_.planner.begin(*delivery->subscription)) wake_fetcher();
  delivery->running = true;
  delivery->started = now;
  ++shared_.ledger.running;
  MonoTime deadline = delivery->lease_end - keeper_.safety_margin();
  const auto timeout = delivery->handler->options.timeout;
  if (timeout.count() > 0) deadline = std::min<MonoTime>(deadline, now + timeout);
  keeper_.watch(deadline);
  return true;
}

void Dispatcher::handle(const DeliveryPtr& delivery) {
  // A lock of another transaction may block the settlement. This cannot happen where transactions
  // exclude each other.
  if (!scope_.database.transactions_exclude_writers()) {
    delivery->before_commit = [this, commits = delivery.get()] {
      const std::lock_guard lock(shared_.ledger.mutex);
      commits->commit_began = clock().mono();
      keeper_.watch(commits->commit_began + LeaseKeeper::commit_patience);
      return pool_.can_add_thread();
    };
    const auto& message = delivery->claimed.message;
    const std::lock_guard lock(shared_.ledger.mutex);
    delivery->checks_first = !pool_.can_add_thread() && !message.stream &&
                             shared_.ledger.was_blocked(message.topic, clock().mono());
  }
  end(delivery, source_->deliver(*delivery));
}

void Dispatcher::end(const DeliveryPtr& delivery, std::optional<storage::Settlement> settlement) {
  const std::lock_guard lock(shared_.ledger.mutex);
  const bool settles = settlement.has_value();
  const bool was_full = shared_.planner.is_full(shared_.ledger.held().size());
  --shared_.ledger.running;
  shared_.ledger.remove(delivery);
  shared_.planner.release(delivery->claimed.claim.id);
  if (!delivery->given_up) {
    shared_.planner.end(*delivery->subscription, clock().mono() - delivery->started);
  }
  const bool goes_on = settlement ? settlement->kind == Kind::ack : delivery->acked.load();
  if (settlement) {
    if (delivery->renewed) storage::forget_row(settlement->claim);
    settle_later(finished_of(*delivery, std::move(*settlement)));
  } else {
    shared_.planner.note_alive();
    if (const auto in = delivery->snoozed_for) {
      shared_.planner.note_due_at(*delivery->subscription, clock().mono() + *in + milliseconds{1});
    }
  }
  goes_on ? submit_next(*delivery) : release_successors(*delivery);
  if (delivery->blocked) {
    shared_.ledger.note_blocked(delivery->claimed.message.topic, clock().mono());
  }
  if (delivery->lease_lost) shared_.ledger.lost_leases.push_back(delivery->claimed.claim.id);
  // Without a settlement, no other event tells the fetchers that there is room again.
  if (!settles || was_full || delivery->given_up) wake_fetcher();
  if (shared_.ledger.running == 0) shared_.handler_ended.notify_all();
}

// --- under the ledger's mutex

void Dispatcher::settle_later(Finished finished) {
  const bool first = shared_.ledger.finished() == 0;
  shared_.ledger.finish(std::move(finished), clock().mono());
  if (first || shared_.planner.startable() == 0 ||
      shared_.ledger.finished() >= shared_.planner.batch()) {
    wake_fetcher();
  }
}

/// The message returns to its old place in the queue. No attempt is charged.
void Dispatcher::give_back(const Delivery& delivery) {
  settle_later(finished_of(delivery, {.kind = Kind::snooze, .claim = delivery.claimed.claim}));
}

/// The delivery ends without having begun.
void Dispatcher::drop(const DeliveryPtr& delivery) {
  shared_.planner.release(delivery->claimed.claim.id);
  if (shared_.ledger.remove(delivery)) shared_.planner.drop(*delivery->subscription);
}

/// Leaves the message to other processes, and replaces the thread that hangs.
void Dispatcher::give_up(const DeliveryPtr& delivery) {
  delivery->given_up = true;
  release_successors(*delivery);
  shared_.planner.release(delivery->claimed.claim.id);
  if (shared_.ledger.remove(delivery)) {
    shared_.planner.end(*delivery->subscription, clock().mono() - delivery->started);
  }
  pool_.replace(delivery);
  if (pool_.live_threads() == 0) give_back_waiting();
  wake_fetcher();  // there is room again
}

/// The delivery keeps its lease, and still counts towards the concurrency limit of its handler.
void Dispatcher::add_thread_for_blocked_commit(const DeliveryPtr& delivery) {
  delivery->thread_added = true;
  scope_.count_metric("dovetail_settlement_blocked_total", 1);
  shared_.ledger.note_blocked(delivery->claimed.message.topic, clock().mono());
  pool_.add_thread_for_blocked_commit(delivery);
  wake_fetcher();
}

}  // namespace dovetail::runtime
