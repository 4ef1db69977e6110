#include "dovetail/platform.hpp"

#include "runtime/engines.hpp"
#include "storage/migrator.hpp"

namespace dovetail {
namespace {

std::unique_ptr<storage::Database> open_database(std::string_view url, const PlatformOptions& options) {
  return runtime::open_database(
      url, {.schema = options.schema,
            .max_connections = options.max_connections,
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
  std::unique_ptr<storage::Database> database;
  Outbox outbox;
};

Platform Platform::open(std::string_view url, PlatformOptions options) {
  if (!options.log_sink) options.log_sink = spdlog_log_sink(LogLevel::warn);
  auto database = open_database(url, options);
  if (options.deploy_schema && !storage::pending_migrations(*database).empty()) storage::migrate(*database);
  storage::verify_schema(*database);
  Outbox outbox(*database, options.outbox, Logger{options.log_sink});
  return Platform{std::make_unique<State>(State{std::move(database), std::move(outbox)})};
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
Platform::~Platform() = default;

Transaction Platform::begin() {
  return Transaction{state_->database->begin()};
}
Outbox& Platform::outbox() {
  return state_->outbox;
}
const std::string& Platform::name() const {
  return state_->database->name();
}

}  // namespace dovetail
