#include "dovetail/platform.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include "core/owner_process.hpp"
#include "dovetail/error.hpp"
#include "join/catch_up.hpp"
#include "join/wait_handler.hpp"
#include "runtime/clock_check.hpp"
#include "runtime/dispatcher.hpp"
#include "runtime/engines.hpp"
#include "runtime/handler_registry.hpp"
#include "runtime/instance.hpp"
#include "runtime/listener.hpp"
#include "runtime/scheduler.hpp"
#include "storage/migrator.hpp"

namespace dovetail {
namespace {

constexpr std::chrono::hours expired_leases_kept{1};
constexpr std::chrono::hours stale_instances_kept{1};
constexpr int most_stuck = 1'000;  // counted at once
constexpr int reaper_looks_at = 10'000;

void require_time_limits(const PlatformOptions& options) {
  using std::chrono::milliseconds;
  if (options.connect_timeout < milliseconds{100} ||
      options.connect_timeout > std::chrono::minutes{10}) {
    throw std::out_of_range("connect_timeout must be 100 ms to 10 min");
  }
  if (options.retry_for < milliseconds{0} || options.retry_for > std::chrono::hours{24}) {
    throw std::out_of_range("retry_for must be 0 to 24 h");
  }
}

std::unique_ptr<storage::Database> open_database(std::string_view url,
                                                 const PlatformOptions& options) {
  require_time_limits(options);
  return runtime::open_database(
      url, {.schema = options.schema,
            .max_connections = options.max_connections,
            // Beside the fetchers: renewals and housekeeping, of the outbox and of the inbox; two
            // notifiers, the scheduler, the joins' catch-up, the starts of jobs' runs, and the
            // heartbeat.
            .service_connections =
                2 * static_cast<std::size_t>(std::max(1, options.worker.fetchers)) + 10,
            .pooled = options.pooled,
            .busy_timeout = options.busy_timeout,
            .connect_timeout = options.connect_timeout,
            .retry_for = options.retry_for,
            .clock = options.clock ? options.clock : system_clock(),
            .log = Logger{options.log_sink ? options.log_sink : spdlog_log_sink(LogLevel::warn)}});
}

std::vector<SchemaChange> described(storage::Database& database,
                                    const std::vector<storage::Migration>& migrations) {
  std::vector<SchemaChange> changes;
  changes.reserve(migrations.size());
  for (const auto& migration : migrations) {
    changes.push_back({migration.number, std::string{migration.name},
                       database.store<storage::MigrationStore>().script(migration)});
  }
  return changes;
}

}  // namespace

struct Platform::State {
  State(std::unique_ptr<storage::Database> opened, PlatformOptions given)
      : options(std::move(given)),
        log(options.log_sink),
        metrics(options.metrics),
        database(std::move(opened)),
        outbox(*database, options.outbox, log, metrics),
        inbox(*database, options.inbox, log, metrics),
        joins(*database, outbox, options.joins, log, metrics),
        join_catch_up(*database, log, metrics),
        leases(*database, log, metrics),
        timers(*database, options.schedule.timers, log, metrics),
        jobs(*database, outbox, options.schedule, log, metrics),
        instances(*database),
        clock_check(*database, log, metrics),
        listener(*database, log),
        handlers(options.outbox.max_attempts),
        inbox_handlers(options.inbox.queue.max_attempts) {
    add(std::make_shared<join::WaitHandler>(*database, outbox, joins.options(), log, metrics,
                                            [this] { join_catch_up.note_waiting(); }));
  }

  void add(std::shared_ptr<Handler> handler) {
    const auto topic = handler->topic();
    auto handler_options = handler->options();
    handlers.add(topic,
                 noting_starts([handler = std::move(handler)](const Message& message,
                                                              HandlerContext& context) {
                   handler->handle(message, context);
                 }),
                 std::move(handler_options));
  }

  /// For information only: a run does not fail because this does.
  void note_started(JobRunId run) {
    try {
      jobs.note_started(run);
    } catch (const std::exception& error) {
      log.write(
          LogLevel::warn, "jobs.start_not_noted",
          {{"store", database->name()}, {"run_id", run.to_string()}, {"error", error.what()}});
    }
  }

  /// A message that is a job's run begins that run.
  HandlerFunction noting_starts(HandlerFunction function) {
    if (!function) return {};
    return [this, function = std::move(function)](const Message& message, HandlerContext& context) {
      if (const auto run = Jobs::run_of(message)) note_started(*run);
      function(message, context);
    };
  }

  /// What a started Platform does beside the outbox's own housekeeping.
  std::vector<runtime::Chore> chores() {
    return {{"joins",
             [this](const std::stop_token& stop) {
               joins.fail_overdue(stop);
               join_catch_up.run_once(stop);
               const auto age = joins.options().retain_finished;
               if (age.count() > 0) joins.purge(age, stop);
             }},
            {"inbox",
             [this](const std::stop_token& stop) {
               if (inbox_handlers.empty()) keep_house(inbox.queue(), stop);
               inbox.purge(inbox.options().remember, stop);
               warn_of_stuck(stop);
             }},
            {"timers", [this](const std::stop_token& stop) { keep_house(timers.queue(), stop); }},
            {"jobs",
             [this](const std::stop_token& stop) {
               jobs.purge_runs(jobs.options().retain_runs, stop);
             }},
            {"leases",
             [this](const std::stop_token& stop) { leases.purge(expired_leases_kept, stop); }},
            {"instances",
             [this](const std::stop_token& stop) { instances.purge(stale_instances_kept, stop); }},
            {"clock", [this](const std::stop_token& stop) {
               clock_check.run({.service = true, .stop = stop});
             }}};
  }

  /// Of a queue that no dispatcher works.
  static void keep_house(WorkQueue& queue, const std::stop_token& stop) {
    queue.reap_expired({.look_at = reaper_looks_at, .stop = stop});
    if (queue.options().retain_done.count() > 0)
      queue.purge_done(queue.options().retain_done, stop);
  }

  void warn_of_stuck(const std::stop_token& stop) {
    const auto stuck = inbox.stuck(inbox.options().stuck_after, most_stuck, stop);
    metrics.count("inbox.stuck", stuck.size(), {{"store", database->name()}});
    if (stuck.empty()) return;
    log.write(LogLevel::warn, "inbox.stuck",
              {{"store", database->name()},
               {"count", stuck.size()},
               {"source", stuck.front().source},
               {"message_id", stuck.front().message_id}});
  }

  std::unique_ptr<runtime::Dispatcher> make_dispatcher(storage::QueueConsumer& store,
                                                       WorkQueue& queue,
                                                       runtime::HandlerRegistry& registry,
                                                       std::vector<runtime::Chore> beside) {
    return std::make_unique<runtime::Dispatcher>(*database, store, queue, registry, options.worker,
                                                 listener, std::move(beside), log, metrics);
  }

  /// The queues that this process works on, as the table of instances shows them.
  [[nodiscard]] std::vector<InstanceQueue> worked_queues() const {
    std::vector<InstanceQueue> queues{{"outbox", handlers.topics(), handlers.handles_all()}};
    if (!inbox_handlers.empty()) {
      queues.push_back({"inbox", inbox_handlers.topics(), inbox_handlers.handles_all()});
    }
    return queues;
  }

  /// Calls `function` while no other thread starts the platform. Throws InvalidOperation when it
  /// was started.
  template <class Function>
  void before_start(const Function& function) {
    process.require();
    const std::lock_guard lock(start_mutex);
    if (dispatcher)
      throw InvalidOperation("the platform has been started: register handlers before");
    function();
  }

  void start();
  void choose_threads();

  PlatformOptions options;
  Logger log;
  Metrics metrics;
  std::unique_ptr<storage::Database> database;
  Outbox outbox;
  Inbox inbox;
  Joins joins;
  join::CatchUp join_catch_up;
  Leases leases;
  Timers timers;
  Jobs jobs;
  Instances instances;
  runtime::ClockCheck clock_check;
  core::OwnerProcess process;
  std::mutex stop_mutex;   // taken before the other
  std::mutex start_mutex;  // guards the handlers until the start, and the pointers below
  runtime::Listener listener;
  runtime::HandlerRegistry handlers;
  runtime::HandlerRegistry inbox_handlers;
  std::unique_ptr<runtime::Instance>
      instance;  // before the dispatchers: beats until their handlers have ended
  std::unique_ptr<runtime::Dispatcher> dispatcher;
  std::unique_ptr<runtime::Dispatcher> inbox_dispatcher;  // with handlers only
  std::unique_ptr<runtime::Scheduler> scheduler;
};

Platform Platform::open(std::string_view url, PlatformOptions options) {
  if (!options.log_sink) options.log_sink = spdlog_log_sink(LogLevel::warn);
  auto database = open_database(url, options);
  if (options.deploy_schema && !storage::pending_migrations(*database).empty())
    storage::migrate(*database);
  storage::verify_schema(*database);
  auto state = std::make_unique<State>(std::move(database), std::move(options));
  state->clock_check.try_run();
  return Platform{std::move(state)};
}

std::vector<SchemaChange> Platform::migrate(std::string_view url, const PlatformOptions& options) {
  const auto database = open_database(url, options);
  return described(*database, storage::migrate(*database));
}

std::vector<SchemaChange> Platform::pending_changes(std::string_view url,
                                                    const PlatformOptions& options) {
  const auto database = open_database(url, options);
  return described(*database, storage::pending_migrations(*database));
}

std::string Platform::grants(std::string_view url, std::string_view role, RolePurpose purpose,
                             const PlatformOptions& options) {
  if (role.empty() || role.find('\0') != std::string_view::npos) {
    throw std::invalid_argument("role must not be empty and must not contain NUL");
  }
  const auto& engine = runtime::engine_for(url);
  if (engine.grants == nullptr) return {};
  return engine.grants({.schema = options.schema,
                        .role = std::string{role},
                        .purpose = purpose == RolePurpose::worker
                                       ? storage::GrantPurpose::worker
                                       : storage::GrantPurpose::producer});
}

Platform::Platform(std::unique_ptr<State> state) : state_(std::move(state)) {}
Platform::Platform(Platform&&) noexcept = default;
Platform& Platform::operator=(Platform&& other) noexcept {
  if (this != &other) {
    const Platform ends_here(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
Platform::~Platform() {
  if (!state_) return;
  if (!state_->process.is_this_one()) {
    // A forked child has none of the threads, and the connections are the parent's: nothing may be
    // closed.
    [[maybe_unused]] const auto* leaked = state_.release();
    return;
  }
  // Handlers that are left may wait for a database that does not answer.
  if (!stop()) state_->database->cancel_calls();
}

void Platform::on(std::string_view topic, HandlerFunction function, HandlerOptions options) {
  state_->before_start([&] {
    state_->handlers.add(topic, state_->noting_starts(std::move(function)), std::move(options));
  });
}

void Platform::on(std::shared_ptr<Handler> handler) {
  if (!handler) throw std::invalid_argument("handler must not be null");
  state_->before_start([&] { state_->add(std::move(handler)); });
}

void Platform::on_any(HandlerFunction function, HandlerOptions options) {
  state_->before_start([&] {
    state_->handlers.add_fallback(state_->noting_starts(std::move(function)), std::move(options));
  });
}

namespace {

HandlerFunction adapted(InboxHandlerFunction function) {
  if (!function) return {};
  return [function = std::move(function)](const Message& message, HandlerContext& context) {
    function(InboxMessage::from(message), context);
  };
}

}  // namespace

void Platform::on_inbox(std::string_view topic, InboxHandlerFunction function,
                        HandlerOptions options) {
  state_->before_start(
      [&] { state_->inbox_handlers.add(topic, adapted(std::move(function)), std::move(options)); });
}

void Platform::on_any_inbox(InboxHandlerFunction function, HandlerOptions options) {
  state_->before_start([&] {
    state_->inbox_handlers.add_fallback(adapted(std::move(function)), std::move(options));
  });
}

void Platform::State::choose_threads() {
  auto& threads = options.worker.threads;
  if (threads != 0) return;
  const auto cores = std::max(4, static_cast<int>(std::thread::hardware_concurrency()));
  const auto fitting = static_cast<int>(options.max_connections) - 1;
  const int dispatchers = inbox_handlers.empty() ? 1 : 2;
  threads = std::clamp(fitting / dispatchers, 1, cores);
}

/// Either everything is started, or nothing is left running.
void Platform::State::start() {
  choose_threads();
  auto outbox_work = make_dispatcher(database->queue(storage::queues::outbox).consumer, outbox,
                                     handlers, chores());
  std::unique_ptr<runtime::Dispatcher> inbox_work;
  if (!inbox_handlers.empty()) {
    inbox_work = make_dispatcher(database->queue(storage::queues::inbox).consumer, inbox.queue(),
                                 inbox_handlers, {});
  }
  auto schedule =
      std::make_unique<runtime::Scheduler>(*database, timers, jobs, listener, options.worker, log);
  auto entry = std::make_unique<runtime::Instance>(*database, worked_queues(),
                                                   runtime::InstanceOptions{}, log, metrics);
  try {
    outbox_work->start();
    if (inbox_work) inbox_work->start();
    schedule->start();
    join_catch_up.start();
    listener.start();
    entry->start();
  } catch (...) {  // no more threads: the others end with their objects
    join_catch_up.stop();
    listener.stop();
    throw;
  }
  instance = std::move(entry);
  dispatcher = std::move(outbox_work);
  inbox_dispatcher = std::move(inbox_work);
  scheduler = std::move(schedule);
}

void Platform::start() {
  auto& state = *state_;
  state.before_start([&] {
    state.jobs.require_zones();
    state.start();
  });
}

bool Platform::stop(std::optional<std::chrono::milliseconds> deadline) {
  auto& state = *state_;
  state.process.require();
  const std::lock_guard one_at_a_time(state.stop_mutex);
  {
    const std::lock_guard lock(state.start_mutex);
    if (!state.dispatcher) return true;
  }
  const auto patience = deadline.value_or(state.options.worker.drain);
  if (state.instance) state.instance->drain();
  state.scheduler->request_stop();
  state.listener.request_stop();
  state.join_catch_up.request_stop();
  bool ended = true;
  bool inbox_ended = true;
  {
    // Both at once: neither waits for the handlers of the other.
    const std::jthread beside([&] {
      if (state.inbox_dispatcher) inbox_ended = state.inbox_dispatcher->stop(patience);
    });
    ended = state.dispatcher->stop(patience);
  }
  state.scheduler->stop();
  state.join_catch_up.stop();
  state.listener.stop();
  // With handlers that still run, the instance keeps its row until they have ended.
  if (state.instance && ended && inbox_ended) state.instance->leave();
  return ended && inbox_ended;
}

Transaction Platform::begin() {
  return Transaction{state_->database->begin()};
}
Outbox& Platform::outbox() {
  return state_->outbox;
}
Inbox& Platform::inbox() {
  return state_->inbox;
}
Joins& Platform::joins() {
  return state_->joins;
}
Leases& Platform::leases() {
  return state_->leases;
}
Timers& Platform::timers() {
  return state_->timers;
}
Jobs& Platform::jobs() {
  return state_->jobs;
}
Instances& Platform::instances() {
  return state_->instances;
}
const std::string& Platform::name() const {
  return state_->database->name();
}

}  // namespace dovetail
