// Start and stop of a dispatcher.
#include "runtime/dispatcher.hpp"

#include <algorithm>
#include <stdexcept>

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;

/// The least time that a stopped dispatcher has for its settlements, even after the deadline.
constexpr milliseconds least_settling_time{500};
/// How long a stopped dispatcher without results waits for the answer of a claim. It gives the
/// messages of a late answer back; without the answer they stay leased.
constexpr milliseconds claim_patience{2'000};

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
      shared_(handlers, options_, pool.threads()),
      intake_(handlers, scope_, options_.lease),
      keeper_(*this, *source_, shared_.ledger, scope_, options_.lease) {}

Dispatcher::~Dispatcher() {
  fetchers_.io.request_stop();
  stop(clock().mono());
  pool_.remove(*this);
}

Dispatcher::Bells::Bells(Dispatcher& dispatcher)
    : messages(dispatcher.scope_.database.bell(dispatcher.scope_.queue()),
               [&dispatcher] {
                 const std::lock_guard lock(dispatcher.shared_.ledger.mutex);
                 dispatcher.shared_.planner.ring();
                 dispatcher.wake_fetcher();
               }),
      listener(dispatcher.listener_, [&dispatcher] {
        const std::lock_guard lock(dispatcher.shared_.ledger.mutex);
        dispatcher.shared_.planner.poll_by(dispatcher.clock().mono() +
                                           dispatcher.options_.poll_interval);
        dispatcher.wake_fetcher();
      }) {}

int Dispatcher::fetcher_count() const {
  return scope_.database.transactions_exclude_writers() ? 1 : options_.fetchers;
}

/// The fetchers, and the lease keeper.
std::size_t Dispatcher::connections() const {
  return static_cast<std::size_t>(fetcher_count()) + 1;
}

void Dispatcher::start() {
  set_running();
  bells_.emplace(*this);
  fetchers_.running = true;
  for (int i = 0; i < fetcher_count(); ++i) {
    auto& progress = fetchers_.progress.emplace_back(clock());
    fetchers_.threads.emplace_back([this, &progress] { fetch(progress); });
  }
  keeper_.start();
}

void Dispatcher::begin(Wakes wakes) {
  keeper_.begin(std::move(wakes.timekeeper));
  fetchers_.wake_other = std::move(wakes.fetcher);
  set_running();
  bells_.emplace(*this);
}

void Dispatcher::set_running() {
  const std::lock_guard lock(shared_.ledger.mutex);
  shared_.health.running = true;
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
    const std::lock_guard lock(shared_.ledger.mutex);
    if (std::exchange(shared_.stopping, true)) return;
    const auto held = shared_.ledger.held().size();
    give_back_waiting();
    for (const auto& [id, delivery] : shared_.ledger.held()) {
      delivery->shutting_down = true;
      told.push_back(delivery);
    }
    wake_all_fetchers();
    if (shared_.health.running) {
      scope_.log.write(LogLevel::info, scope_.event("stopping"),
                       {{"store", scope_.database.name()},
                        {"running", told.size()},
                        {"waiting", held - told.size()}});
    }
  }
  tell_to_stop(told);
}

bool Dispatcher::stop(MonoTime deadline) {
  request_stop();
  bool drained = false;
  {
    std::unique_lock lock(shared_.ledger.mutex);
    while (shared_.ledger.running > 0 && clock().mono() < deadline) {
      clock().wait_until(shared_.handler_ended, lock, deadline);
    }
    drained = shared_.ledger.running == 0;
    shared_.closed = true;
    wake_all_fetchers();
  }
  keeper_.request_stop();
  // The fetchers store the remaining settlements and end. They get at least a short time for that.
  join_fetchers(std::max<MonoTime>(deadline, clock().mono() + least_settling_time));
  bells_.reset();
  fetchers_.io.request_stop();
  keeper_.stop();
  return drained;
}

void Dispatcher::join_fetchers(MonoTime give_up_at) {
  if (fetchers_.threads.empty()) return;
  const auto idle_at = std::min<MonoTime>(give_up_at, clock().mono() + claim_patience);
  const auto wait = [&](const std::stop_token& done) {
    if (!clock().sleep_until(idle_at, done)) return;
    if (!has_results() || clock().sleep_until(give_up_at, done)) cut_off();
  };
  const auto limit = std::make_unique<std::jthread>(wait);  // GCC 12 warns of one on the stack
  for (auto& fetcher : fetchers_.threads) fetcher.join();
  fetchers_.threads.clear();
  fetchers_.running = false;
}

bool Dispatcher::has_results() {
  const std::lock_guard lock(shared_.ledger.mutex);
  return shared_.settling > 0 || shared_.ledger.finished() > 0 || !shared_.ledger.aside().empty();
}

void Dispatcher::cut_off() {
  if (fetchers_.running) fetchers_.cut_off = true;
  fetchers_.io.request_stop();
  keeper_.cut_off();
}

component::ServiceHealth Dispatcher::health() const {
  const std::lock_guard lock(shared_.ledger.mutex);
  return shared_.health;
}

std::vector<component::Loop> Dispatcher::loops() const {
  const auto look = [this] {
    core::LoopProgress::State worst{.last = MonoTime::max()};
    for (const auto& progress : fetchers_.progress) {
      const auto state = progress.look();
      worst.last = std::min(worst.last, state.last);
      worst.overdue = std::max(worst.overdue, state.overdue);
    }
    return worst;
  };
  auto loops = keeper_.loops(scope_.prefix);
  loops.insert(loops.begin(), {scope_.prefix + "fetchers", options_.idle_poll_interval, look});
  return loops;
}

Dispatcher::Assessment Dispatcher::assess() {
  const std::lock_guard lock(shared_.ledger.mutex);
  const auto now = clock().mono();
  const auto load = this->load();
  shared_.planner.grow(load, now);
  Assessment assessment{.needs = shared_.planner.needs(load, now),
                        .wake = shared_.planner.next_wake(load, now),
                        .is_drained = shared_.ledger.running == 0};
  assessment.is_idle = load.held == 0 && shared_.ledger.running == 0 && load.finished == 0 &&
                       shared_.ledger.aside().empty() && !load.resets_lost_leases;
  return assessment;
}

void Dispatcher::report_load() const {
  Load load;
  std::size_t window = 0;
  {
    const std::lock_guard lock(shared_.ledger.mutex);
    load = shared_.ledger.load();
    window = shared_.planner.window();
  }
  scope_.set_gauge("dovetail_held_messages", load.held);
  scope_.set_gauge("dovetail_running_handlers", load.running);
  scope_.set_gauge("dovetail_held_messages_limit", window);
}

Load Dispatcher::load() const {
  auto load = shared_.ledger.load();
  load.has_threads = pool_.live_threads() > 0;
  load.stopping = shared_.stopping;
  return load;
}

}  // namespace dovetail::runtime
