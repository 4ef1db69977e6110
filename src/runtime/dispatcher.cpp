// Start and stop of a dispatcher, and the beginning and the end of its deliveries.
#include "runtime/dispatcher.hpp"

#include <algorithm>
#include <stdexcept>

#include "storage/row_hint.hpp"

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;
using std::chrono::milliseconds;

/// The least time that a stopped dispatcher has for its settlements, even after the deadline.
constexpr milliseconds least_settling_time{500};

void require(bool good, const char* message) {
  if (!good) throw std::out_of_range(message);
}

const WorkerOptions& checked(const WorkerOptions& options) {
  require(options.batch_size >= 1 && options.batch_size <= 10'000, "batch_size must be 1 to 10000");
  require(options.fetchers >= 1 && options.fetchers <= 32, "fetchers must be 1 to 32");
  require(options.lease >= milliseconds{100} && options.lease <= std::chrono::hours{24},
          "lease must be 100 ms to 24 h");
  require(
      options.poll_interval >= milliseconds{1} && options.poll_interval <= std::chrono::hours{1},
      "poll_interval must be 1 ms to 1 h");
  require(options.idle_poll_interval >= options.poll_interval &&
              options.idle_poll_interval <= std::chrono::hours{1},
          "idle_poll_interval must be poll_interval to 1 h");
  require(options.max_bytes >= 1024 && options.max_bytes <= std::size_t{1} << 40,
          "max_bytes must be 1 KiB to 1 TiB");
  return options;
}

}  // namespace

Dispatcher::Dispatcher(QueueScope scope, std::unique_ptr<WorkSource> source,
                       const HandlerRegistry& handlers, const WorkerOptions& options,
                       WorkerPool& pool, storage::Listener& listener)
    : scope_(std::move(scope)),
      options_(checked(options)),
      source_(std::move(source)),
      pool_(pool),
      listener_(listener),
      planner_(handlers, options_, pool.threads()),
      intake_(handlers, scope_, options_.lease),
      keeper_(*this, *source_, ledger_, scope_, options_.lease) {}

Dispatcher::~Dispatcher() {
  state_.io.request_stop();
  stop(clock().mono());
  pool_.remove(*this);
}

Dispatcher::Bells::Bells(Dispatcher& dispatcher)
    : messages(dispatcher.scope_.database.bell(dispatcher.scope_.queue()),
               [&dispatcher] {
                 const std::lock_guard lock(dispatcher.ledger_.mutex);
                 dispatcher.planner_.ring();
                 dispatcher.wake_fetcher();
               }),
      listener(dispatcher.listener_, [&dispatcher] {
        const std::lock_guard lock(dispatcher.ledger_.mutex);
        dispatcher.planner_.look_by(dispatcher.clock().mono() + dispatcher.options_.poll_interval);
        dispatcher.wake_fetcher();
      }) {}

void Dispatcher::start() {
  bells_.emplace(*this);
  state_.health.running = true;
  const int fetchers = scope_.database.transactions_exclude_writers() ? 1 : options_.fetchers;
  for (int i = 0; i < fetchers; ++i) fetchers_.threads.emplace_back([this] { fetch(); });
  keeper_.start();
}

void Dispatcher::begin(Wakes wakes) {
  keeper_.begin(std::move(wakes.timekeeper));
  fetchers_.wake_other = std::move(wakes.fetcher);
  bells_.emplace(*this);
  state_.health.running = true;
}

void Dispatcher::wake_fetcher() {
  if (fetchers_.wake_other) return fetchers_.wake_other();
  fetchers_.wakes.notify_one();
}

void Dispatcher::wake_all_fetchers() {
  if (fetchers_.wake_other) return fetchers_.wake_other();
  fetchers_.wakes.notify_all();
}

void Dispatcher::request_stop() {
  std::vector<DeliveryPtr> told;
  {
    const std::lock_guard lock(ledger_.mutex);
    if (std::exchange(state_.stopping, true)) return;
    const auto held = ledger_.held().size();
    give_back_waiting();
    for (const auto& [id, delivery] : ledger_.held()) {
      delivery->shutting_down = true;
      told.push_back(delivery);
    }
    wake_all_fetchers();
    if (state_.health.running) {
      scope_.log.write(LogLevel::info, scope_.event("stopping"),
                       {{"store", scope_.database.name()},
                        {"running", told.size()},
                        {"waiting", held - told.size()}});
    }
  }
  tell_to_stop(std::move(told));
}

bool Dispatcher::stop(MonoTime deadline) {
  request_stop();
  bool drained = false;
  {
    std::unique_lock lock(ledger_.mutex);
    while (ledger_.running > 0 && clock().mono() < deadline) {
      clock().wait_until(state_.handler_ended, lock, deadline);
    }
    drained = ledger_.running == 0;
    state_.closed = true;
    wake_all_fetchers();
  }
  keeper_.request_stop();
  // The fetchers store the remaining settlements and end. They get at least a short time for that.
  join_fetchers(std::max<MonoTime>(deadline, clock().mono() + least_settling_time));
  bells_.reset();
  state_.io.request_stop();
  keeper_.stop();
  return drained;
}

void Dispatcher::join_fetchers(MonoTime give_up_at) {
  if (fetchers_.threads.empty()) return;
  const auto cut_off = [&](const std::stop_token& done) {
    if (!clock().sleep_until(give_up_at, done)) return;
    state_.cut_off = true;
    state_.io.request_stop();
  };
  const auto limit = std::make_unique<std::jthread>(cut_off);  // GCC 12 warns of one on the stack
  for (auto& fetcher : fetchers_.threads) fetcher.join();
  fetchers_.threads.clear();
}

component::ServiceHealth Dispatcher::health() const {
  const std::lock_guard lock(ledger_.mutex);
  return state_.health;
}

// --- the handlers

/// Called by a thread of the pool that is about to call the handler.
bool Dispatcher::begin(const DeliveryPtr& delivery) {
  const std::lock_guard lock(ledger_.mutex);
  const auto now = clock().mono();
  auto& subscription = *delivery->subscription;
  const auto id = delivery->claimed.claim.id;
  const bool unwanted = state_.stopping || (planner_.has_suspect() && !planner_.is_suspect(id));
  // By the database's clock the lease may still be held. Then other owners need not wait until it
  // expires.
  if (unwanted || delivery->lease_end - keeper_.safety_margin() <= now) {
    give_back_behind(*delivery);
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
  planner_.begin(subscription);
  // A fetcher checks whether to claim: if there is room for a batch, if no delivery is left to
  // begin, and for each delivery with a concurrency limit.
  if (subscription.waiting == planner_.batch() || planner_.startable() == 0 ||
      subscription.limited() != nullptr) {
    wake_fetcher();
  }
  delivery->running = true;
  delivery->started = now;
  ++ledger_.running;
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
      const std::lock_guard lock(ledger_.mutex);
      commits->commit_began = clock().mono();
      keeper_.watch(commits->commit_began + LeaseKeeper::commit_patience);
      return pool_.can_relieve();
    };
  }
  end(delivery, source_->deliver(*delivery));
}

void Dispatcher::end(const DeliveryPtr& delivery, std::optional<storage::Settlement> settlement) {
  const std::lock_guard lock(ledger_.mutex);
  const bool settles = settlement.has_value();
  const bool was_full = planner_.is_full(ledger_.held().size());
  --ledger_.running;
  ledger_.remove(delivery);
  planner_.release(delivery->claimed.claim.id);
  if (!delivery->given_up) {
    planner_.end(*delivery->subscription, clock().mono() - delivery->started);
  }
  const bool goes_on = settlement ? settlement->kind == Kind::ack : delivery->acked.load();
  if (settlement) {
    if (delivery->renewed) storage::forget_row(settlement->claim);
    settle_later(finished_of(*delivery, std::move(*settlement)));
  } else {
    planner_.note_alive();
    if (const auto in = delivery->comes_back_in) {
      delivery->subscription->comes_due(clock().mono() + *in + std::chrono::milliseconds{1});
    }
  }
  goes_on ? submit_next(*delivery) : give_back_behind(*delivery);
  if (delivery->lease_lost) ledger_.absolved.push_back(delivery->claimed.claim.id);
  // Without a settlement, no other event tells the fetchers that there is room again.
  if (!settles || was_full || delivery->given_up) wake_fetcher();
  if (ledger_.running == 0) state_.handler_ended.notify_all();
}

// --- under the ledger's mutex

void Dispatcher::settle_later(Finished finished) {
  const bool first = ledger_.finished() == 0;
  ledger_.finish(std::move(finished), clock().mono());
  if (first || planner_.startable() == 0 || ledger_.finished() >= planner_.batch()) {
    wake_fetcher();
  }
}

/// The message returns to its old place in the queue. No attempt is charged.
void Dispatcher::give_back(const Delivery& delivery) {
  settle_later(finished_of(delivery, {.kind = Kind::snooze, .claim = delivery.claimed.claim}));
}

/// The delivery ends without having begun.
void Dispatcher::drop(const DeliveryPtr& delivery) {
  planner_.release(delivery->claimed.claim.id);
  if (ledger_.remove(delivery)) planner_.drop(*delivery->subscription);
}

/// Leaves the message to other processes, and replaces the thread that hangs.
void Dispatcher::give_up(const DeliveryPtr& delivery) {
  delivery->given_up = true;
  give_back_behind(*delivery);
  planner_.release(delivery->claimed.claim.id);
  if (ledger_.remove(delivery)) {
    planner_.end(*delivery->subscription, clock().mono() - delivery->started);
  }
  pool_.replace(delivery);
  if (pool_.live_threads() == 0) give_back_waiting();
  wake_fetcher();  // there is room again
}

/// The delivery keeps its lease, and still counts towards the concurrency limit of its handler.
void Dispatcher::relieve(const DeliveryPtr& delivery) {
  delivery->relieved = true;
  scope_.count_event("settlement_blocked", 1);
  pool_.relieve(delivery);
  wake_fetcher();
}

Load Dispatcher::load() const {
  auto load = ledger_.load();
  load.has_threads = pool_.live_threads() > 0;
  load.stopping = state_.stopping;
  return load;
}

}  // namespace dovetail::runtime
