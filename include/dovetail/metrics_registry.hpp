// A MetricsSink that keeps its measurements in memory, where the program itself reads them.
//
// It is the sink of a Platform whose PlatformOptions::metrics is absent; Platform::metrics() reads
// it. To read one registry for several platforms, create it and pass it to all of them.
//
// Guarantees
//   * A measurement of a series that exists takes no lock: it adds to an atomic cell. Threads use
//     different cells, as far as there are enough. The first measurement of a series takes a lock.
//   * A snapshot contains every measurement that happened before it. It blocks no thread.
//   * Memory is bounded. A metric has at most `max_values` values of a label whose values the users
//     choose (topic, source, job, subscription, work_key); further values become "other", and such
//     measurements are counted (MetricsSnapshot::folded). There are at most `max_series` series.
//     Measurements of further series are dropped and counted (MetricsSnapshot::dropped).
// Not guaranteed
//   * That a snapshot is atomic: it may contain some of the measurements that happen while it is
//     taken.
//
// A series is a name with its labels, in the order in which they are given.
//
// Threads: a MetricsRegistry may be shared between threads.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dovetail/metrics.hpp"

namespace dovetail {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

struct CounterValue {
  std::string name{};
  MetricLabels labels{};
  std::uint64_t value = 0;
};

struct GaugeValue {
  std::string name{};
  MetricLabels labels{};
  double value = 0;  ///< The last value that was set. Not NaN.
};

/// A histogram of durations.
struct TimingValue {
  /// The upper bounds of the buckets, inclusive. The last bucket has no bound.
  static constexpr std::array<std::chrono::nanoseconds, 18> bounds{
      std::chrono::milliseconds{1},     std::chrono::microseconds{2'500},
      std::chrono::milliseconds{5},     std::chrono::milliseconds{10},
      std::chrono::milliseconds{25},    std::chrono::milliseconds{50},
      std::chrono::milliseconds{100},   std::chrono::milliseconds{250},
      std::chrono::milliseconds{500},   std::chrono::seconds{1},
      std::chrono::milliseconds{2'500}, std::chrono::seconds{5},
      std::chrono::seconds{10},         std::chrono::seconds{30},
      std::chrono::seconds{60},         std::chrono::seconds{120},
      std::chrono::seconds{300},        std::chrono::nanoseconds::max()};

  std::string name{};
  MetricLabels labels{};
  std::uint64_t count = 0;
  std::chrono::nanoseconds sum{};
  /// The number of measurements in each bucket, not cumulative.
  std::array<std::uint64_t, bounds.size()> buckets{};
};

/// Each list is sorted by name and labels.
struct MetricsSnapshot {
  std::vector<CounterValue> counters{};
  std::vector<GaugeValue> gauges{};
  std::vector<TimingValue> timings{};
  std::uint64_t dropped = 0;  ///< Measurements of series beyond the limit.
  std::uint64_t folded = 0;   ///< Measurements with the label value "other".

  /// The sum of a counter over all its labels; zero when it was never counted.
  [[nodiscard]] std::uint64_t counter(std::string_view name) const;
};

class MetricsRegistry final : public MetricsSink {
 public:
  static constexpr std::size_t default_max_series = 20'000;
  /// The number of values of one label of a metric, before they become "other".
  static constexpr std::size_t max_values = 200;

  /// Throws std::out_of_range when `max_series` is not 1 to 1,000,000.
  explicit MetricsRegistry(std::size_t max_series = default_max_series);
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;
  ~MetricsRegistry() override;

  void count(std::string_view name, std::uint64_t by, std::span<const MetricLabel> labels) override;
  void time(std::string_view name, std::chrono::nanoseconds duration,
            std::span<const MetricLabel> labels) override;
  void gauge(std::string_view name, double value, std::span<const MetricLabel> labels) override;

  [[nodiscard]] MetricsSnapshot snapshot() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail
