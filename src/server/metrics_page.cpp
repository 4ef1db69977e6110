#include "server/metrics_page.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>

#include "observe/metric_families.hpp"

namespace dovetail::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

bool is_name_character(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '_';
}

std::string allowed_name(std::string_view name) {
  std::string allowed{name};
  std::ranges::replace_if(
      allowed, [](char each) { return !is_name_character(each); }, '_');
  if (allowed.empty() || (allowed.front() >= '0' && allowed.front() <= '9'))
    allowed.insert(0, 1, '_');
  return allowed;
}

double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// The families by name. A name has one type: that of its first metric.
class Families {
 public:
  /// Returns null if the name has another type.
  ClientMetric* add(std::string_view name, const MetricLabels& labels, MetricType type) {
    auto& family = families_[allowed_name(name)];
    if (family.name.empty()) {
      family.name = allowed_name(name);
      family.help = observe::help_of(name);
      family.type = type;
    }
    if (family.type != type) return nullptr;
    auto& metric = family.metric.emplace_back();
    for (const auto& [label, value] : labels) metric.label.push_back({allowed_name(label), value});
    return &metric;
  }
  void count(std::string_view name, const MetricLabels& labels, std::uint64_t value) {
    if (auto* metric = add(name, labels, MetricType::Counter))
      metric->counter.value = static_cast<double>(value);
  }

  [[nodiscard]] std::string text() const {
    std::vector<MetricFamily> all;
    all.reserve(families_.size());
    for (const auto& [name, family] : families_) all.push_back(family);
    std::ostringstream out;
    prometheus::TextSerializer{}.Serialize(out, all);
    return out.str();
  }

 private:
  std::map<std::string, MetricFamily> families_;
};

ClientMetric::Histogram histogram_of(const TimingValue& timing) {
  ClientMetric::Histogram histogram;
  histogram.sample_count = timing.count;
  histogram.sample_sum = in_seconds(timing.sum);
  std::uint64_t up_to_here = 0;
  for (std::size_t i = 0; i < TimingValue::bounds.size(); ++i) {
    up_to_here += timing.buckets[i];
    const bool last = i + 1 == TimingValue::bounds.size();
    histogram.bucket.push_back({up_to_here, last ? std::numeric_limits<double>::infinity()
                                                 : in_seconds(TimingValue::bounds[i])});
  }
  return histogram;
}

}  // namespace

std::string metrics_page(const MetricsSnapshot& snapshot) {
  Families families;
  for (const auto& counter : snapshot.counters) {
    families.count(counter.name, counter.labels, counter.value);
  }
  for (const auto& gauge : snapshot.gauges) {
    if (auto* metric = families.add(gauge.name, gauge.labels, MetricType::Gauge))
      metric->gauge.value = gauge.value;
  }
  for (const auto& timing : snapshot.timings) {
    if (auto* metric = families.add(timing.name, timing.labels, MetricType::Histogram))
      metric->histogram = histogram_of(timing);
  }
  families.count("dovetail_metrics_dropped_total", {}, snapshot.dropped);
  families.count("dovetail_metrics_folded_total", {}, snapshot.folded);
  return families.text();
}

}  // namespace dovetail::server
