#include "group/state.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>

#include "dovetail/error.hpp"
#include "group/entries.hpp"
#include "group/errors.hpp"
#include "group/fanout_access.hpp"
#include "runtime/node_sample.hpp"

namespace dovetail {
namespace {

using std::chrono::milliseconds;

/// The interval at which the group checks whether databases have left, and whether the discovery is
/// due or has changed.
constexpr milliseconds tick_interval{250};
constexpr int maintenance_threads = 4;
constexpr int fetch_threads = 4;
constexpr int renewal_threads = 2;
constexpr std::size_t finishers = 8;
/// The time for storing the last results, in addition to the deadline of stop().
constexpr milliseconds finish_time{3'000};
constexpr milliseconds longest_refresh_pause{60'000};

void require(bool good, const char* message) {
  if (!good) throw std::out_of_range(message);
}

/// For hundreds of databases.
constexpr std::size_t most_series_of_a_group = 100'000;

GroupOptions checked(GroupOptions options) {
  require(options.max_connections >= 4 && options.max_connections <= 10'000,
          "max_connections of a group must be 4 to 10000");
  require(options.max_listeners <= 10'000, "max_listeners must be 0 to 10000");
  require(options.max_poll_interval >= milliseconds{500} &&
              options.max_poll_interval <= std::chrono::hours{1},
          "max_poll_interval must be 0.5 s to 1 h");
  require(
      options.call_timeout >= milliseconds{100} && options.call_timeout <= std::chrono::minutes{10},
      "call_timeout must be 100 ms to 10 min");
  if (!options.selection) options.selection = round_robin();
  if (!options.database.clock) options.database.clock = system_clock();
  if (!options.database.log_sink) options.database.log_sink = spdlog_log_sink(LogLevel::warn);
  if (!options.database.metrics)
    options.database.metrics = std::make_shared<MetricsRegistry>(most_series_of_a_group);
  return options;
}

std::size_t reserved(std::size_t connections) {
  return std::max<std::size_t>(2, connections / 4);
}

/// The number of threads that call handlers: each may hold a connection.
int threads_of(const GroupOptions& options) {
  auto database = options.database;
  database.max_connections = options.max_connections - reserved(options.max_connections) + 1;
  return runtime::worker_threads(database);
}

}  // namespace

PlatformGroup::State::State(GroupOptions options)
    : options_(checked(std::move(options))),
      log_(options_.database.log_sink),
      metrics_(options_.database.metrics),
      outbox_handlers_(options_.database.outbox.max_attempts),
      inbox_handlers_(options_.database.inbox.queue.max_attempts),
      maintenance_(*options_.database.clock,
                   {.threads = maintenance_threads, .step_limit = 3 * options_.call_timeout}),
      fetchers_(*options_.database.clock,
                {.threads = fetch_threads, .step_limit = options_.call_timeout}),
      renewers_(*options_.database.clock,
                {.threads = renewal_threads, .step_limit = options_.call_timeout}),
      timekeepers_(*options_.database.clock, {.threads = 1}),
      turns_(*options_.database.clock, options_.selection, fetch_threads, log_),
      listeners_(options_.max_listeners),
      migrations_(static_cast<int>(std::max<std::size_t>(1, options_.max_connections / 4))),
      context_{.options = options_,
               .budget = std::make_shared<storage::ConnectionBudget>(
                   options_.max_connections, reserved(options_.max_connections)),
               .outbox_handlers = outbox_handlers_,
               .inbox_handlers = inbox_handlers_,
               .subscriptions = subscriptions_,
               .fanout = fanout_,
               .log = log_,
               .metrics = metrics_,
               .clock = *options_.database.clock,
               .maintenance = maintenance_,
               .listeners = listeners_,
               .migrations = migrations_},
      roster_(context_),
      supervisor_(context_.clock, metrics_, {}),
      sampler_([this] { return sample_sources(); }, options_.database.clock, metrics_),
      health_(std::make_unique<group::GroupHealth>(
                  group::GroupHealth::Parts{.process = process_,
                                            .state = run_state_,
                                            .supervisor = supervisor_,
                                            .options = options_.database.health,
                                            .status = [this] { return status(); },
                                            .sampler = sampler_}),
              options_.database.health, options_.database.clock) {}

PlatformGroup::State::~State() {
  const bool ended = stop(std::nullopt);
  supervisor_.stop();
  if (!ended) {
    for (const auto& member : roster_.all()) member->cancel_calls();
  }
  if (pool_) {
    pool_->close();
    pool_->join();
  }
  roster_.end();
}

/// A database that is not open has no work, as far as the group knows: it is not opened for this.
std::vector<observe::Sampler::Source> PlatformGroup::State::sample_sources() const {
  std::vector<observe::Sampler::Source> sources;
  for (const auto& member : roster_.members()) {
    if (const auto node = member->node()) sources.push_back(runtime::sample_source(node));
  }
  return sources;
}

// --- handlers

runtime::HandlerRegistry& PlatformGroup::State::registry(bool inbox) {
  if (pool_) throw InvalidOperation("the group has been started: register handlers before");
  return inbox ? inbox_handlers_ : outbox_handlers_;
}

void PlatformGroup::State::add_handler(bool inbox, std::string_view topic, HandlerFunction function,
                                       HandlerOptions options) {
  process_.require();
  const std::lock_guard lock(start_mutex_);
  if (!inbox && topic == options_.database.joins.wait_topic) {
    throw InvalidOperation("topic " + std::string{topic} + " has a handler already");
  }
  registry(inbox).add(topic, std::move(function), std::move(options));
  run_state_ = runtime::RunState::prepared;
}

void PlatformGroup::State::add_fallback(bool inbox, HandlerFunction function,
                                        HandlerOptions options) {
  process_.require();
  const std::lock_guard lock(start_mutex_);
  registry(inbox).add_fallback(std::move(function), std::move(options));
  run_state_ = runtime::RunState::prepared;
}

void PlatformGroup::State::subscribe(event::Registration registration) {
  process_.require();
  const std::lock_guard lock(start_mutex_);
  if (pool_) throw InvalidOperation("the group has been started: subscribe before");
  subscriptions_.add(std::move(registration));
  run_state_ = runtime::RunState::prepared;
}

// --- start and stop

void PlatformGroup::State::start() {
  process_.require();
  const std::lock_guard lock(start_mutex_);
  if (pool_) throw InvalidOperation("the group has been started before");
  run_state_ = runtime::RunState::starting;
  group::FanoutAccess::close(fanout_);
  supervisor_.start();
  pool_ = std::make_unique<runtime::WorkerPool>(threads_of(options_), log_);
  pool_->start();
  for (auto* agenda : {&timekeepers_, &renewers_, &fetchers_, &maintenance_}) agenda->start();
  roster_.start({.fetchers = fetchers_,
                 .renewers = renewers_,
                 .timekeepers = timekeepers_,
                 .turns = turns_,
                 .pool = *pool_});
  const auto sweep = [this](const std::stop_token&) {
    roster_.sweep();
    return context_.clock.mono() + tick_interval;
  };
  sweeping_ = maintenance_.add(sweep, context_.clock.mono());
  looking_ = maintenance_.add([this](const std::stop_token&) { return look_for_changes(); },
                              context_.clock.mono());
  supervise();
  run_state_ = runtime::RunState::running;
}

void PlatformGroup::State::supervise() {
  const auto loop = [](const char* name, group::Agenda& agenda) -> component::Loop {
    return {name, {}, [&agenda] { return agenda.look(); }};
  };
  supervisor_.watch({loop("group.maintenance", maintenance_), loop("group.fetchers", fetchers_),
                     loop("group.renewers", renewers_), loop("group.timekeepers", timekeepers_)});
}

bool PlatformGroup::State::stop(std::optional<milliseconds> deadline) {
  constexpr milliseconds longest = std::chrono::hours{24 * 365};
  process_.require();
  const std::lock_guard one_at_a_time(stop_mutex_);
  {
    const std::lock_guard lock(start_mutex_);
    if (!pool_) return true;
  }
  const auto patience =
      std::clamp(deadline.value_or(options_.database.worker.drain), milliseconds{0}, longest);
  const MonoTime until = context_.clock.mono() + patience;
  stopping_.request_stop();
  if (run_state_ == runtime::RunState::running) run_state_ = runtime::RunState::stopping;
  for (const auto& member : roster_.all()) member->request_stop();
  maintenance_.stop();
  roster_.stop();
  const auto members = roster_.all();  // including members that were added meanwhile
  for (const auto& member : members) member->request_stop();
  bool ended = true;
  for (const auto& member : members) ended = member->stop(until) && ended;
  if (!std::exchange(stopped_, true)) finish_members();
  // A discovery that does not return is left behind. Its thread does not use the group.
  const auto left = std::max<MonoDuration>(until - context_.clock.mono(), MonoDuration{});
  if (const auto calls = discovery()) calls->wait_for_end(std::chrono::steady_clock::now() + left);
  if (!ended) return false;
  pool_->close();
  pool_->join();
  finish_members();
  for (auto* agenda : {&fetchers_, &renewers_, &timekeepers_}) agenda->stop();
  run_state_ = runtime::RunState::stopped;
  supervisor_.stop();
  return true;
}

/// Finishes several members at the same time, so that one that hangs does not delay the others.
void PlatformGroup::State::finish_members() {
  const auto members = roster_.all();
  const auto give_up_at = context_.clock.mono() + finish_time;
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(finishers, members.size()); ++i) {
    threads.emplace_back([&] {
      for (auto index = next++; index < members.size(); index = next++) {
        members[index]->finish(give_up_at);
      }
    });
  }
}

GroupStatus PlatformGroup::State::status() const {
  GroupStatus status;
  for (const auto& member : roster_.all()) {
    if (!member->has_left()) status.databases.push_back(member->status());
  }
  const std::lock_guard lock(discovering_.mutex);
  if (discovering_.succeeded) {
    status.discovery_age =
        std::chrono::duration_cast<milliseconds>(context_.clock.mono() - *discovering_.succeeded);
  }
  status.discovery_failing_since = discovering_.failing_since;
  status.discovery_failures = discovering_.failures;
  status.discovery_error = discovering_.error;
  status.bad_entries = discovering_.bad_entries;
  return status;
}

// --- discovery

void PlatformGroup::State::discover(std::shared_ptr<DatabaseDiscovery> discovery,
                                    DiscoverOptions options) {
  if (!discovery) throw std::invalid_argument("discovery must not be null");
  require(options.refresh >= milliseconds{100} && options.refresh <= std::chrono::hours{24},
          "refresh must be 100 ms to 24 h");
  require(options.timeout >= milliseconds{100} && options.timeout <= std::chrono::hours{1},
          "timeout of a discovery must be 100 ms to 1 h");
  const std::lock_guard lock(discovering_.mutex);
  if (discovering_.calls) throw InvalidOperation("the group has a discovery already");
  discovering_.calls =
      std::make_shared<group::DiscoveryCalls>(std::move(discovery), options.timeout);
  discovering_.options = options;
}

std::shared_ptr<group::DiscoveryCalls> PlatformGroup::State::discovery() const {
  const std::lock_guard lock(discovering_.mutex);
  return discovering_.calls;
}

std::vector<std::string> PlatformGroup::State::refresh() {
  const auto calls = discovery();
  if (!calls) throw InvalidOperation("the group has no discovery");
  // Lists are applied in the order of the calls. The time limit of a call limits the wait, too.
  {
    std::unique_lock lock(discovering_.mutex);
    if (!discovering_.ended.wait(lock, stopping_.get_token(),
                                 [this] { return !discovering_.running; })) {
      throw InvalidOperation("the group is being stopped");
    }
    discovering_.running = true;
  }
  const auto end_run = [](Discovering* run) { run->end_run(); };
  const std::unique_ptr<Discovering, decltype(end_run)> run(&discovering_, end_run);
  try {
    return apply_list(calls->find(stopping_.get_token()));
  } catch (...) {
    note_failure(group::current_error());
    throw;
  }
}

std::vector<std::string> PlatformGroup::State::apply_list(std::vector<DatabaseEntry> found) {
  std::set<std::string> unclear;
  for (const auto& entry : found) unclear.insert(entry.key);
  const auto entries = group::checked_entries(std::move(found));
  for (const auto& entry : entries.good) unclear.erase(entry.key);
  auto complaints = roster_.apply(entries.good, unclear);
  complaints.insert(complaints.begin(), entries.complaints.begin(), entries.complaints.end());
  const std::lock_guard lock(discovering_.mutex);
  if (complaints != discovering_.bad_entries) {
    for (const auto& complaint : complaints) {
      log_.write(LogLevel::warn, "group.bad_entry", {{"error", complaint}});
    }
  }
  discovering_.bad_entries = complaints;
  discovering_.succeeded = context_.clock.mono();
  discovering_.failing_since.reset();
  discovering_.failures = 0;
  discovering_.error.clear();
  discovering_.due = context_.clock.mono() + discovering_.options.refresh;
  metrics_.gauge("dovetail_group_databases", static_cast<double>(entries.good.size()), {});
  return complaints;
}

void PlatformGroup::State::note_failure(const std::string& error) {
  if (stopping_.stop_requested()) return;  // the stop ended the call
  metrics_.count("dovetail_group_discovery_failed_total", 1, {});
  log_.write(LogLevel::warn, "group.discovery_failed", {{"error", error}});
  const std::lock_guard lock(discovering_.mutex);
  const auto pause = std::min<MonoDuration>(
      discovering_.options.refresh,
      std::min<MonoDuration>(std::chrono::seconds{1} * (1 << std::min(discovering_.failures, 6)),
                             longest_refresh_pause));
  if (discovering_.failures++ == 0) discovering_.failing_since = context_.clock.wall();
  discovering_.error = error;
  discovering_.due = context_.clock.mono() + pause;
}

MonoTime PlatformGroup::State::look_for_changes() {
  const auto calls = discovery();
  if (!calls) return context_.clock.mono() + tick_interval;
  bool due = false;
  milliseconds interval{};
  {
    const std::lock_guard lock(discovering_.mutex);
    due = context_.clock.mono() >= discovering_.due;
    interval = std::min(tick_interval, discovering_.options.refresh);
  }
  try {
    if (!due && !changes_unknown_) due = calls->has_changed(stopping_.get_token());
  } catch (...) {
    changes_unknown_ = true;
    note_failure(group::current_error());
  }
  try {
    if (due) {
      refresh();
      changes_unknown_ = false;
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): it was recorded, and is retried when it is due
  }
  return context_.clock.mono() + interval;
}

/// The entries for a migration, including the list of the discovery.
std::vector<DatabaseEntry> PlatformGroup::State::entries() {
  bool unknown = false;
  {
    const std::lock_guard lock(discovering_.mutex);
    unknown = discovering_.calls && !discovering_.succeeded;
  }
  if (unknown) refresh();
  std::vector<DatabaseEntry> entries;
  for (const auto& member : roster_.members()) entries.push_back(member->entry());
  return entries;
}

}  // namespace dovetail
