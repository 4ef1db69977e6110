#include "dovetail/platform.hpp"

#include "fanout/component.hpp"
#include "inbox/component.hpp"
#include "instance/component.hpp"
#include "join/component.hpp"
#include "lease/component.hpp"
#include "outbox/component.hpp"
#include "runtime/connections.hpp"
#include "runtime/engines.hpp"
#include "runtime/runtime.hpp"
#include "schedule/component.hpp"
#include "storage/migrator.hpp"

namespace dovetail {
namespace {

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
            .service_connections = runtime::service_connections(options.worker.fetchers),
            .pooled = options.pooled,
            .busy_timeout = options.busy_timeout,
            .connect_timeout = options.connect_timeout,
            .retry_for = options.retry_for,
            .clock = options.clock ? options.clock : system_clock(),
            .log = Logger{options.log_sink ? options.log_sink : spdlog_log_sink(LogLevel::warn)},
            .metrics = Metrics{options.metrics}});
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

HandlerFunction adapted(InboxHandlerFunction function) {
  if (!function) return {};
  return [function = std::move(function)](const Message& message, HandlerContext& context) {
    function(InboxMessage::from(message), context);
  };
}

}  // namespace

struct Platform::State {
  runtime::Runtime runtime;
};

Platform Platform::open(std::string_view url, PlatformOptions options) {
  if (!options.log_sink) options.log_sink = spdlog_log_sink(LogLevel::warn);
  if (!options.metrics) options.metrics = std::make_shared<MetricsRegistry>();
  auto database = open_database(url, options);
  if (options.deploy_schema && !storage::pending_migrations(*database).empty())
    storage::migrate(*database);
  storage::verify_schema(*database);
  std::unique_ptr<State> state(
      new State{.runtime = runtime::Runtime(std::move(database), std::move(options))});
  state->runtime.node().clock_check().try_run();
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
  if (!state_->runtime.process().is_this_one()) {
    // A forked child has none of the threads, and the connections are the parent's: it closes
    // nothing.
    [[maybe_unused]] const auto* leaked = state_.release();
    return;
  }
  // Handlers that are left may wait for a database that does not answer.
  if (!stop()) state_->runtime.node().database().cancel_calls();
}

// --- handlers

void Platform::on(std::string_view topic, HandlerFunction function, HandlerOptions options) {
  state_->runtime.add_handler("outbox", topic, std::move(function), std::move(options));
}

void Platform::on(std::shared_ptr<Handler> handler) {
  if (!handler) throw std::invalid_argument("handler must not be null");
  const auto topic = handler->topic();
  auto options = handler->options();
  on(
      topic,
      [handler = std::move(handler)](const Message& message, HandlerContext& context) {
        handler->handle(message, context);
      },
      std::move(options));
}

void Platform::on_any(HandlerFunction function, HandlerOptions options) {
  state_->runtime.add_fallback("outbox", std::move(function), std::move(options));
}

void Platform::on_inbox(std::string_view topic, InboxHandlerFunction function,
                        HandlerOptions options) {
  state_->runtime.add_handler("inbox", topic, adapted(std::move(function)), std::move(options));
}

void Platform::on_any_inbox(InboxHandlerFunction function, HandlerOptions options) {
  state_->runtime.add_fallback("inbox", adapted(std::move(function)), std::move(options));
}

// --- background services

void Platform::start() {
  state_->runtime.start();
}

bool Platform::stop(std::optional<std::chrono::milliseconds> deadline) {
  return state_->runtime.stop(deadline);
}

// --- components

Transaction Platform::begin() {
  return Transaction{state_->runtime.node().database().begin()};
}
Outbox& Platform::outbox() {
  return state_->runtime.node().get<outbox::Component>().outbox;
}
Inbox& Platform::inbox() {
  return state_->runtime.node().get<inbox::Component>().inbox;
}
Joins& Platform::joins() {
  return state_->runtime.node().get<join::Component>().joins;
}
Leases& Platform::leases() {
  return state_->runtime.node().get<lease::Component>().leases;
}
Timers& Platform::timers() {
  return state_->runtime.node().get<schedule::Component>().timers;
}
Jobs& Platform::jobs() {
  return state_->runtime.node().get<schedule::Component>().jobs;
}
Fanout& Platform::fanout() {
  return state_->runtime.node().get<fanout::Component>().fanout;
}
Instances& Platform::instances() {
  return state_->runtime.node().get<instance::Component>().instances;
}
const std::string& Platform::name() const {
  return state_->runtime.node().database().name();
}

MetricsSnapshot Platform::metrics() const {
  return state_->runtime.metrics();
}

}  // namespace dovetail
