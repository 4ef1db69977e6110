// Metrics: counters, timings and gauges, which are written to a sink. The default sink is a
// MetricsRegistry (metrics_registry.hpp).
//
// Names and labels are listed in docs/observability.md; Prometheus uses the same names. Labels
// never hold payloads or ids.
//
// Threads: a MetricsSink must accept concurrent calls, and must not block: it is called on hot
// paths.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

namespace dovetail {

struct MetricLabel {
  std::string_view name;
  std::string_view value;
};

class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  /// Adds `by` to the counter `name`.
  virtual void count(std::string_view name, std::uint64_t by,
                     std::span<const MetricLabel> labels) = 0;
  /// Records a duration of the timing `name`.
  virtual void time(std::string_view name, std::chrono::nanoseconds duration,
                    std::span<const MetricLabel> labels) = 0;
  /// Sets the gauge `name` to `value`; not a number removes it. The default ignores it: a sink need
  /// not have gauges.
  virtual void gauge(std::string_view /*name*/, double /*value*/,
                     std::span<const MetricLabel> /*labels*/) {}
};

/// A cheap, copyable handle to a sink, or to none. Exceptions of the sink are ignored: metrics
/// never change an outcome.
class Metrics {
 public:
  Metrics() = default;
  explicit Metrics(std::shared_ptr<MetricsSink> sink) : sink_(std::move(sink)) {}

  void count(std::string_view name, std::uint64_t by,
             std::initializer_list<MetricLabel> labels) const noexcept {
    if (!sink_ || by == 0) return;
    try {
      sink_->count(name, by, {labels.begin(), labels.size()});
    } catch (...) {  // NOLINT(bugprone-empty-catch): documented above
    }
  }
  void time(std::string_view name, std::chrono::nanoseconds duration,
            std::initializer_list<MetricLabel> labels) const noexcept {
    if (!sink_) return;
    try {
      sink_->time(name, duration, {labels.begin(), labels.size()});
    } catch (...) {  // NOLINT(bugprone-empty-catch): documented above
    }
  }
  void gauge(std::string_view name, double value,
             std::initializer_list<MetricLabel> labels) const noexcept {
    if (!sink_) return;
    try {
      sink_->gauge(name, value, {labels.begin(), labels.size()});
    } catch (...) {  // NOLINT(bugprone-empty-catch): documented above
    }
  }

 private:
  std::shared_ptr<MetricsSink> sink_;
};

}  // namespace dovetail
