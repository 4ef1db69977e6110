#include "runtime/open.hpp"

#include <stdexcept>

#include "runtime/connections.hpp"
#include "runtime/engines.hpp"
#include "storage/migrator.hpp"

namespace dovetail::runtime {
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

}  // namespace

std::unique_ptr<storage::Database> open_database(std::string_view url,
                                                 const PlatformOptions& options, GroupPlace place) {
  require_time_limits(options);
  return open_database(
      url, storage::DatabaseOptions{
               .schema = options.schema,
               .max_connections = options.max_connections,
               .service_connections = service_connections(options.worker.fetchers),
               .pooled = options.pooled,
               .read_only = options.read_only,
               .busy_timeout = options.busy_timeout,
               .connect_timeout = options.connect_timeout,
               .retry_for = options.retry_for,
               .clock = options.clock ? options.clock : system_clock(),
               .log = Logger{options.log_sink ? options.log_sink : spdlog_log_sink(LogLevel::warn)},
               .metrics = Metrics{options.metrics},
               .label = std::move(place.label),
               .budget = std::move(place.budget),
               .account = std::move(place.account)});
}

void prepare_schema(storage::Database& database, const PlatformOptions& options) {
  if (options.deploy_schema && !storage::pending_migrations(database).empty()) {
    storage::migrate(database);
  }
  storage::verify_schema(database);
}

std::shared_ptr<Node> open_node(std::string_view url, PlatformOptions options) {
  if (!options.log_sink) options.log_sink = spdlog_log_sink(LogLevel::warn);
  if (!options.metrics) options.metrics = std::make_shared<MetricsRegistry>();
  auto database = open_database(url, options);
  prepare_schema(*database, options);
  auto node = std::make_shared<Node>(std::move(database), std::move(options));
  node->clock_check().try_run();
  return node;
}

}  // namespace dovetail::runtime
