#include "dovetail/platform.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include "dovetail/error.hpp"
#include "join/wait_handler.hpp"
#include "runtime/clock_check.hpp"
#include "runtime/dispatcher.hpp"
#include "runtime/engines.hpp"
#include "runtime/handler_registry.hpp"
#include "runtime/listener.hpp"
#include "runtime/scheduler.hpp"
#include "storage/migrator.hpp"

namespace dovetail {
namespace {

constexpr std::chrono::hours expired_leases_kept{1};
constexpr int most_stuck = 1'000;  // counted at once
constexpr int reaper_looks_at = 10'000;

std::unique_ptr<storage::Database> open_database(std::string_view url, const PlatformOptions& options) {
  return runtime::open_database(
      url,
      {.schema = options.schema,
       .max_connections = options.max_connections,
       // Beside the fetchers: renewals and housekeeping, of the outbox and of the inbox; the notifier, the scheduler,
       // and the starts of jobs' runs.
       .service_connections = 2 * static_cast<std::size_t>(std::max(1, options.worker.fetchers)) + 7,
       .pooled = options.pooled,
       .busy_timeout = options.busy_timeout,
       .clock = options.clock ? options.clock : system_clock(),
       .log = Logger{options.log_sink ? options.log_sink : spdlog_log_sink(LogLevel::warn)}});
}

std::vector<SchemaChange> described(storage::Database& database,
                                    const std::vector<storage::Migration>& migrations) {
  std::vector<SchemaChange> changes;
  changes.reserve(migrations.size());
  for (const auto& migration : migrations) {
    changes.push_back(
        {migration.number, std::string{migration.name}, database.migrations().script(migration)});
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
        leases(*database, log, metrics),
        timers(*database, options.schedule.timers, log, metrics),
        jobs(*database, outbox, options.schedule, log, metrics),
        clock_check(*database, log, metrics),
        listener(*database, log),
        handlers(options.outbox.max_attempts),
        inbox_handlers(options.inbox.queue.max_attempts) {
    add(std::make_shared<join::WaitHandler>(*database, outbox, joins.options(), log, metrics));
  }

  void add(std::shared_ptr<Handler> handler) {
    const auto topic = handler->topic();
    auto handler_options = handler->options();
    handlers.add(
        topic,
        noting_starts([handler = std::move(handler)](const OutboxMessage& message, HandlerContext& context) {
          handler->handle(message, context);
        }),
        std::move(handler_options));
  }

  /// For information only: a run does not fail because this does.
  void note_started(JobRunId run) {
    try {
      jobs.note_started(run);
    } catch (const std::exception& error) {
      log.write(LogLevel::warn, "jobs.start_not_noted",
                {{"store", database->name()}, {"run_id", run.to_string()}, {"error", error.what()}});
    }
  }

  /// A message that is a job's run begins that run.
  HandlerFunction noting_starts(HandlerFunction function) {
    if (!function) return {};
    return [this, function = std::move(function)](const OutboxMessage& message, HandlerContext& context) {
      if (const auto run = Jobs::run_of(message)) note_started(*run);
      function(message, context);
    };
  }

  /// What a started Platform does beside the outbox's own housekeeping.
  std::vector<runtime::Chore> chores() {
    return {
        {"joins",
         [this](const std::stop_token& stop) {
           joins.fail_overdue(stop);
           const auto age = joins.options().retain_finished;
           if (age.count() > 0) joins.purge(age, stop);
         }},
        {"inbox",
         [this](const std::stop_token& stop) {
           if (!inbox_dispatcher) keep_house(inbox.queue(), stop);
           inbox.forget(inbox.options().remember, stop);
           warn_of_stuck(stop);
         }},
        {"timers", [this](const std::stop_token& stop) { keep_house(timers.queue(), stop); }},
        {"jobs", [this](const std::stop_token& stop) { jobs.purge_runs(jobs.options().retain_runs, stop); }},
        {"leases", [this](const std::stop_token& stop) { leases.purge(expired_leases_kept, stop); }},
        {"clock", [this](const std::stop_token& stop) { clock_check.run({.service = true, .stop = stop}); }}};
  }

  /// Of a queue that no dispatcher works.
  static void keep_house(WorkQueue& queue, const std::stop_token& stop) {
    queue.reap_expired({.look_at = reaper_looks_at, .stop = stop});
    if (queue.options().retain_done.count() > 0) queue.purge_done(queue.options().retain_done, stop);
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

  std::unique_ptr<runtime::Dispatcher> make_dispatcher(storage::QueueStore& store, WorkQueue& queue,
                                                       runtime::HandlerRegistry& registry,
                                                       std::vector<runtime::Chore> beside) {
    return std::make_unique<runtime::Dispatcher>(*database, store, queue, registry, options.worker, listener,
                                                 std::move(beside), log, metrics);
  }

  void require_not_started() const {
    if (dispatcher) throw InvalidOperation("the platform has been started: register handlers before");
  }

  PlatformOptions options;
  Logger log;
  Metrics metrics;
  std::unique_ptr<storage::Database> database;
  Outbox outbox;
  Inbox inbox;
  Joins joins;
  Leases leases;
  Timers timers;
  Jobs jobs;
  runtime::ClockCheck clock_check;
  std::mutex stop_mutex;
  runtime::Listener listener;
  runtime::HandlerRegistry handlers;
  runtime::HandlerRegistry inbox_handlers;
  std::unique_ptr<runtime::Dispatcher> dispatcher;
  std::unique_ptr<runtime::Dispatcher> inbox_dispatcher;  // with handlers only
  std::unique_ptr<runtime::Scheduler> scheduler;
};

Platform Platform::open(std::string_view url, PlatformOptions options) {
  if (!options.log_sink) options.log_sink = spdlog_log_sink(LogLevel::warn);
  auto database = open_database(url, options);
  if (options.deploy_schema && !storage::pending_migrations(*database).empty()) storage::migrate(*database);
  storage::verify_schema(*database);
  auto state = std::make_unique<State>(std::move(database), std::move(options));
  state->clock_check.try_run();
  return Platform{std::move(state)};
}

std::vector<SchemaChange> Platform::migrate(std::string_view url, const PlatformOptions& options) {
  const auto database = open_database(url, options);
  return described(*database, storage::migrate(*database));
}

std::vector<SchemaChange> Platform::pending_changes(std::string_view url, const PlatformOptions& options) {
  const auto database = open_database(url, options);
  return described(*database, storage::pending_migrations(*database));
}

Platform::Platform(std::unique_ptr<State> state) : state_(std::move(state)) {}
Platform::Platform(Platform&&) noexcept = default;
Platform& Platform::operator=(Platform&&) noexcept = default;
Platform::~Platform() {
  if (state_) stop();
}

void Platform::on(std::string_view topic, HandlerFunction function, HandlerOptions options) {
  state_->require_not_started();
  state_->handlers.add(topic, state_->noting_starts(std::move(function)), std::move(options));
}

void Platform::on(std::shared_ptr<Handler> handler) {
  if (!handler) throw std::invalid_argument("handler must not be null");
  state_->require_not_started();
  state_->add(std::move(handler));
}

void Platform::on_any(HandlerFunction function, HandlerOptions options) {
  state_->require_not_started();
  state_->handlers.add_fallback(state_->noting_starts(std::move(function)), std::move(options));
}

namespace {

HandlerFunction adapted(InboxHandlerFunction function) {
  if (!function) return {};
  return [function = std::move(function)](const OutboxMessage& message, HandlerContext& context) {
    function(InboxMessage::from(message), context);
  };
}

}  // namespace

void Platform::on_inbox(std::string_view topic, InboxHandlerFunction function, HandlerOptions options) {
  state_->require_not_started();
  state_->inbox_handlers.add(topic, adapted(std::move(function)), std::move(options));
}

void Platform::on_any_inbox(InboxHandlerFunction function, HandlerOptions options) {
  state_->require_not_started();
  state_->inbox_handlers.add_fallback(adapted(std::move(function)), std::move(options));
}

void Platform::start() {
  state_->require_not_started();
  auto& state = *state_;
  state.jobs.require_zones();
  auto& worker = state.options.worker;
  if (worker.threads == 0) {
    const auto cores = std::max(4, static_cast<int>(std::thread::hardware_concurrency()));
    const auto fitting = static_cast<int>(state.options.max_connections) - 1;
    const int dispatchers = state.inbox_handlers.empty() ? 1 : 2;
    worker.threads = std::clamp(fitting / dispatchers, 1, cores);
  }
  state.dispatcher =
      state.make_dispatcher(state.database->outbox(), state.outbox, state.handlers, state.chores());
  if (!state.inbox_handlers.empty()) {
    state.inbox_dispatcher =
        state.make_dispatcher(state.database->inbox_queue(), state.inbox.queue(), state.inbox_handlers, {});
  }
  state.dispatcher->start();
  if (state.inbox_dispatcher) state.inbox_dispatcher->start();
  state.scheduler = std::make_unique<runtime::Scheduler>(*state.database, state.timers, state.jobs,
                                                         state.listener, worker, state.log);
  state.scheduler->start();
  state.listener.start();
}

bool Platform::stop(std::optional<std::chrono::milliseconds> deadline) {
  auto& state = *state_;
  const std::lock_guard one_at_a_time(state.stop_mutex);
  if (!state.dispatcher) return true;
  const auto patience = deadline.value_or(state.options.worker.drain);
  if (state.scheduler) state.scheduler->stop();
  bool ended = true;
  bool inbox_ended = true;
  {
    // Both at once: neither waits for the handlers of the other.
    const std::jthread beside([&] {
      if (state.inbox_dispatcher) inbox_ended = state.inbox_dispatcher->stop(patience);
    });
    ended = state.dispatcher->stop(patience);
  }
  state.listener.stop();
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
const std::string& Platform::name() const {
  return state_->database->name();
}

}  // namespace dovetail
