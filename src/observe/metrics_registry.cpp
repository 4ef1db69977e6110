#include "dovetail/metrics_registry.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>

namespace dovetail {
// No anonymous namespace: State, which has linkage, has members of these types.
namespace observe {

/// A series of the kind `value` only says that a metric has this value of a label.
enum class SeriesKind : std::uint8_t { counter, gauge, timing, value };

constexpr std::size_t shard_count = 8;
constexpr std::size_t cache_line = 64;
constexpr std::size_t first_slots = 128;
constexpr std::size_t most_series = 1'000'000;
constexpr std::size_t bucket_count = TimingValue::bounds.size();

/// Assigns the shards to the threads in turn.
std::size_t shard_of_this_thread() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t shard = next.fetch_add(1, std::memory_order_relaxed) % shard_count;
  return shard;
}

struct alignas(cache_line) CounterCell {
  std::atomic<std::uint64_t> value{0};
};

struct alignas(cache_line) TimingCell {
  std::atomic<std::int64_t> sum{0};
  std::array<std::atomic<std::uint64_t>, bucket_count> buckets{};
};

void add(std::atomic<std::uint64_t>& cell, std::uint64_t by) {
  cell.fetch_add(by, std::memory_order_relaxed);
}

std::size_t bucket_of(std::chrono::nanoseconds duration) {
  const auto bound = std::ranges::lower_bound(TimingValue::bounds, duration);
  return static_cast<std::size_t>(bound - TimingValue::bounds.begin());
}

struct SeriesKey {
  SeriesKind kind;
  std::string_view name;
  std::span<const MetricLabel> labels;

  [[nodiscard]] std::size_t hash() const {
    constexpr std::hash<std::string_view> text_hash;
    auto result = text_hash(name) + static_cast<std::size_t>(kind);
    for (const auto& label : labels) result = result * 31 + text_hash(label.value);
    return result;
  }
};

/// Labels whose values the users choose, so that their number is not limited.
constexpr std::array<std::string_view, 5> open_labels{"topic", "source", "job", "subscription",
                                                      "work_key"};
constexpr std::string_view rest_value = "other";

bool is_open(const MetricLabel& label) {
  return !label.value.empty() && label.value != rest_value &&
         std::ranges::find(open_labels, label.name) != open_labels.end();
}

/// The labels of a measurement, with "other" in place of the values of open labels.
class FoldedLabels {
 public:
  explicit FoldedLabels(std::span<const MetricLabel> labels)
      : labels_(labels.begin(), labels.end()) {
    for (auto& label : labels_) {
      if (is_open(label)) label.value = rest_value;
    }
  }
  [[nodiscard]] std::span<const MetricLabel> labels() const { return labels_; }

 private:
  std::vector<MetricLabel> labels_;
};

struct Series {
  Series(const SeriesKey& key, std::size_t hashed) : kind(key.kind), hash(hashed), name(key.name) {
    for (const auto& label : key.labels) labels.emplace_back(label.name, label.value);
    if (kind == SeriesKind::counter) counters = std::make_unique<CounterCells>();
    if (kind == SeriesKind::timing) timings = std::make_unique<TimingCells>();
  }

  [[nodiscard]] bool is(const SeriesKey& key, std::size_t hashed) const {
    const auto same = [](const auto& mine, const MetricLabel& other) {
      return mine.first == other.name && mine.second == other.value;
    };
    return hash == hashed && kind == key.kind && name == key.name &&
           std::ranges::equal(labels, key.labels, same);
  }

  using CounterCells = std::array<CounterCell, shard_count>;
  using TimingCells = std::array<TimingCell, shard_count>;

  const SeriesKind kind;
  const std::size_t hash;
  const std::string name;
  MetricLabels labels;
  std::unique_ptr<CounterCells> counters;
  std::unique_ptr<TimingCells> timings;
  std::atomic<double> last{0};       // the value of a gauge
  std::atomic<bool> is_rest{false};  // it collects the values for which there was no room
};

/// A hash table with open addressing. A slot is written once, under the registry's lock, and read
/// without a lock.
struct SeriesTable {
  explicit SeriesTable(std::size_t size) : slots(size) {}

  [[nodiscard]] Series* find(const SeriesKey& key, std::size_t hash) const {
    for (std::size_t i = hash % slots.size();; i = (i + 1) % slots.size()) {
      auto* series = slots[i].load(std::memory_order_acquire);
      if (series == nullptr || series->is(key, hash)) return series;
    }
  }

  /// There is always a free slot: the table is at most half full.
  void insert(Series& series) {
    auto i = series.hash % slots.size();
    while (slots[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) % slots.size();
    slots[i].store(&series, std::memory_order_release);
  }

  std::vector<std::atomic<Series*>> slots;
};

CounterValue counter_of(const Series& series) {
  CounterValue value{.name = series.name, .labels = series.labels};
  for (const auto& cell : *series.counters) {
    value.value += cell.value.load(std::memory_order_relaxed);
  }
  return value;
}

TimingValue timing_of(const Series& series) {
  TimingValue value{.name = series.name, .labels = series.labels};
  for (const auto& cell : *series.timings) {
    value.sum += std::chrono::nanoseconds{cell.sum.load(std::memory_order_relaxed)};
    for (std::size_t i = 0; i < bucket_count; ++i) {
      const auto count = cell.buckets[i].load(std::memory_order_relaxed);
      value.buckets[i] += count;
      value.count += count;
    }
  }
  return value;
}

template <class Values>
void sort_by_name(Values& values) {
  std::ranges::sort(values, {},
                    [](const auto& value) { return std::tie(value.name, value.labels); });
}

}  // namespace observe

struct MetricsRegistry::State {
  explicit State(std::size_t limit) : max_series(limit) { grow(observe::first_slots); }

  /// Returns null if there are too many series.
  observe::Series* series(const observe::SeriesKey& key) {
    if (auto* found = find(key)) return found;
    // Without a lock: the values for which there is no room share a series that exists.
    if (any_rest.load(std::memory_order_acquire) && !is_known(key)) {
      const observe::FoldedLabels rest_labels(key.labels);
      auto* rest = find({key.kind, key.name, rest_labels.labels()});
      if (rest != nullptr && rest->is_rest.load(std::memory_order_acquire))
        return folded_into(rest);
    }
    return is_full.load(std::memory_order_relaxed) ? dropped_one() : create(key);
  }

  [[nodiscard]] observe::Series* find(const observe::SeriesKey& key) const {
    return current.load(std::memory_order_acquire)->find(key, key.hash());
  }
  /// Whether the metric has these values of its open labels already.
  [[nodiscard]] bool is_known(const observe::SeriesKey& key) const {
    return std::ranges::all_of(key.labels, [&](const MetricLabel& label) {
      return !observe::is_open(label) || find(value_key(key, label)) != nullptr;
    });
  }
  [[nodiscard]] static observe::SeriesKey value_key(const observe::SeriesKey& key,
                                                    const MetricLabel& label) {
    return {observe::SeriesKind::value, key.name, {&label, 1}};
  }
  observe::Series* folded_into(observe::Series* rest) {
    folded.fetch_add(1, std::memory_order_relaxed);
    return rest;
  }
  observe::Series* dropped_one() {
    dropped.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }

  observe::Series* create(const observe::SeriesKey& key) {
    const std::lock_guard lock(mutex);
    if (admit(key)) return find_or_insert(key);
    const observe::FoldedLabels shared(key.labels);
    auto* rest = find_or_insert({key.kind, key.name, shared.labels()});
    if (rest == nullptr) return nullptr;
    rest->is_rest.store(true, std::memory_order_release);
    any_rest.store(true, std::memory_order_release);
    return folded_into(rest);
  }

  /// Notes new values of open labels. Returns false if the metric has too many of them.
  bool admit(const observe::SeriesKey& key) {
    std::vector<const MetricLabel*> added;
    for (const auto& label : key.labels) {
      if (!observe::is_open(label) || find(value_key(key, label)) != nullptr) continue;
      if (values[{std::string{key.name}, std::string{label.name}}] >= max_values) return false;
      added.push_back(&label);
    }
    for (const auto* label : added) {
      ++values[{std::string{key.name}, std::string{label->name}}];
      insert(value_key(key, *label));
    }
    return true;
  }

  observe::Series* find_or_insert(const observe::SeriesKey& key) {
    if (auto* found = find(key)) return found;
    if (measured < max_series) {
      ++measured;
      return insert(key);
    }
    is_full.store(true, std::memory_order_relaxed);
    return dropped_one();
  }

  observe::Series* insert(const observe::SeriesKey& key) {
    const auto slots = tables.back()->slots.size();
    if ((all.size() + 1) * 2 > slots) grow(slots * 2);
    all.push_back(std::make_unique<observe::Series>(key, key.hash()));
    tables.back()->insert(*all.back());
    return all.back().get();
  }

  /// Keeps the older tables: other threads may still read them.
  void grow(std::size_t slots) {
    auto table = std::make_unique<observe::SeriesTable>(slots);
    for (const auto& each : all) table->insert(*each);
    tables.push_back(std::move(table));
    current.store(tables.back().get(), std::memory_order_release);
  }

  const std::size_t max_series;
  std::atomic<observe::SeriesTable*> current{nullptr};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> folded{0};
  std::atomic<bool> any_rest{false};  // a metric has more values of a label than it may have
  std::atomic<bool> is_full{false};   // there are max_series series
  mutable std::mutex mutex;           // guards the lists
  std::map<std::pair<std::string, std::string>, std::size_t> values;  // by metric and label
  std::size_t measured = 0;                                           // series without values
  std::vector<std::unique_ptr<observe::SeriesTable>> tables;
  std::vector<std::unique_ptr<observe::Series>> all;
};

MetricsRegistry::MetricsRegistry(std::size_t max_series) {
  if (max_series < 1 || max_series > observe::most_series) {
    throw std::out_of_range("max_series must be 1 to " + std::to_string(observe::most_series));
  }
  state_ = std::make_unique<State>(max_series);
}

MetricsRegistry::~MetricsRegistry() = default;

void MetricsRegistry::count(std::string_view name, std::uint64_t by,
                            std::span<const MetricLabel> labels) {
  if (auto* series = state_->series({observe::SeriesKind::counter, name, labels})) {
    observe::add((*series->counters)[observe::shard_of_this_thread()].value, by);
  }
}

void MetricsRegistry::time(std::string_view name, std::chrono::nanoseconds duration,
                           std::span<const MetricLabel> labels) {
  if (auto* series = state_->series({observe::SeriesKind::timing, name, labels})) {
    auto& cell = (*series->timings)[observe::shard_of_this_thread()];
    cell.sum.fetch_add(duration.count(), std::memory_order_relaxed);
    observe::add(cell.buckets[observe::bucket_of(duration)], 1);
  }
}

void MetricsRegistry::gauge(std::string_view name, double value,
                            std::span<const MetricLabel> labels) {
  if (auto* series = state_->series({observe::SeriesKind::gauge, name, labels})) {
    series->last.store(value, std::memory_order_relaxed);
  }
}

MetricsSnapshot MetricsRegistry::snapshot() const {
  MetricsSnapshot snapshot{.dropped = state_->dropped.load(std::memory_order_relaxed),
                           .folded = state_->folded.load(std::memory_order_relaxed)};
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& series : state_->all) {
      switch (series->kind) {
        case observe::SeriesKind::counter:
          snapshot.counters.push_back(observe::counter_of(*series));
          break;
        case observe::SeriesKind::gauge:
          if (const auto value = series->last.load(std::memory_order_relaxed); !std::isnan(value))
            snapshot.gauges.push_back({series->name, series->labels, value});
          break;
        case observe::SeriesKind::timing:
          snapshot.timings.push_back(observe::timing_of(*series));
          break;
        case observe::SeriesKind::value:
          break;
      }
    }
  }
  observe::sort_by_name(snapshot.counters);
  observe::sort_by_name(snapshot.gauges);
  observe::sort_by_name(snapshot.timings);
  return snapshot;
}

std::uint64_t MetricsSnapshot::counter(std::string_view name) const {
  std::uint64_t sum = 0;
  for (const auto& each : counters) {
    if (each.name == name) sum += each.value;
  }
  return sum;
}

}  // namespace dovetail
