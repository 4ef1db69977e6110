// One call of a handler: from the message to its settlement.
#pragma once

#include <optional>
#include <string>

#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "runtime/delivery.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::runtime {

/// The queue that a dispatcher works on, with its logger and metrics.
struct QueueScope {
  storage::Database& database;
  storage::QueueConsumer& consumer;
  std::string prefix;  // of event names, such as "outbox."
  OwnerToken owner;
  bool keep_done = true;
  Logger log;
  Metrics metrics;
  TraceSink* trace_sink = nullptr;  // null: there are no spans

  [[nodiscard]] std::string_view queue() const {
    return std::string_view{prefix}.substr(0, prefix.find('.'));
  }
  [[nodiscard]] std::string event(std::string_view what) const {
    return prefix + std::string{what};
  }
  void count_metric(std::string_view metric, std::uint64_t by) const {
    metrics.count(metric, by, {{"store", database.name()}, {"queue", queue()}});
  }
  void set_gauge(std::string_view metric, std::size_t value) const {
    metrics.gauge(metric, static_cast<double>(value),
                  {{"store", database.name()}, {"queue", queue()}});
  }
  void count_settled(std::string_view topic, std::string_view outcome, std::uint64_t by) const {
    metrics.count(
        "dovetail_settled_total", by,
        {{"store", database.name()}, {"queue", queue()}, {"topic", topic}, {"outcome", outcome}});
  }
  /// Logs the event `what`, and counts it as `metric`.
  void log_error(std::string_view what, std::string_view metric,
                 const std::exception& error) const {
    count_metric(metric, 1);
    log.write(LogLevel::error, event(what), {{"store", database.name()}, {"error", error.what()}});
  }
};

/// Calls the handler and returns how to settle the message. Returns nullopt if the handler's own
/// transaction has settled it, or if the lease was lost.
[[nodiscard]] std::optional<storage::Settlement> invoke(const QueueScope& scope,
                                                        Delivery& delivery);

/// Returns the settlement of a message that failed with `error`.
[[nodiscard]] storage::Settlement failed_try(const RegisteredHandler& handler, const Claim& claim,
                                             int attempts, std::string_view error);

}  // namespace dovetail::runtime
