#include "history/collector.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace dovetail::history {
namespace {

constexpr std::string_view enqueued_name = "dovetail_enqueued_total";
constexpr std::string_view settled_name = "dovetail_settled_total";
constexpr std::string_view handler_name = "dovetail_handler_seconds";
constexpr const char* rest_topic = "other";

std::string_view value_of(std::span<const MetricLabel> labels, std::string_view name) {
  for (const auto& label : labels) {
    if (label.name == name) return label.value;
  }
  return {};
}

void add_counts(HistoryBucket& to, const HistoryBucket& counts) {
  to.enqueued += counts.enqueued;
  to.done += counts.done;
  to.retried += counts.retried;
  to.failed += counts.failed;
  to.calls += counts.calls;
  to.handler_time += counts.handler_time;
  to.handler_time_max = std::max(to.handler_time_max, counts.handler_time_max);
}

void add_outcome(HistoryBucket& counts, std::string_view outcome, std::int64_t by) {
  if (outcome == "done") counts.done += by;
  if (outcome == "retry") counts.retried += by;
  if (outcome == "dead_letter" || outcome == "blocked") counts.failed += by;
}

std::size_t shard_of_this_thread(std::size_t shards) {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number % shards;
}

/// Folds the topics of a queue with the fewest messages.
void fold_topics(std::map<std::string, HistoryBucket>& topics) {
  if (topics.size() <= Collector::most_topics) return;
  std::vector<std::pair<std::int64_t, std::string>> order;
  order.reserve(topics.size());
  for (const auto& [topic, counts] : topics) {
    order.emplace_back(counts.enqueued + counts.calls + counts.done, topic);
  }
  std::ranges::sort(order, std::greater{});
  HistoryBucket rest;
  for (std::size_t i = Collector::most_topics - 1; i < order.size(); ++i) {
    const auto found = topics.find(order[i].second);
    add_counts(rest, found->second);
    topics.erase(found);
  }
  add_counts(topics[rest_topic], rest);
}

}  // namespace

template <class Add>
void Collector::collect(std::span<const MetricLabel> labels, const Add& add) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const Key key{value_of(labels, "queue"), value_of(labels, "topic")};
  if (key.queue.empty() || key.topic.empty()) return;
  const auto now = clock_->mono();
  auto& shard = shards_[shard_of_this_thread(shards_.size())];
  const std::lock_guard lock(shard.mutex);
  const bool is_over = shard.steps.empty() || now - shard.steps.back().begin >= step;
  if (is_over && shard.steps.size() < most_steps) shard.steps.push_back({.begin = now});
  auto& counts = shard.steps.back().counts;
  auto found = counts.find(key);
  if (found == counts.end()) {
    const bool folds = counts.size() >= most_topics;
    found = counts
                .try_emplace(
                    OwnKey{std::string{key.queue}, folds ? rest_topic : std::string{key.topic}})
                .first;
  }
  add(found->second);
}

void Collector::count(std::string_view name, std::uint64_t by,
                      std::span<const MetricLabel> labels) {
  const auto number = static_cast<std::int64_t>(by);
  if (name == enqueued_name) {
    collect(labels, [&](HistoryBucket& counts) { counts.enqueued += number; });
  } else if (name == settled_name) {
    collect(labels, [&](HistoryBucket& counts) {
      add_outcome(counts, value_of(labels, "outcome"), number);
    });
  }
  if (next_) next_->count(name, by, labels);
}

void Collector::time(std::string_view name, std::chrono::nanoseconds duration,
                     std::span<const MetricLabel> labels) {
  if (name == handler_name) {
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(duration);
    collect(labels, [&](HistoryBucket& counts) {
      ++counts.calls;
      counts.handler_time += took;
      counts.handler_time_max = std::max(counts.handler_time_max, took);
    });
  }
  if (next_) next_->time(name, duration, labels);
}

void Collector::gauge(std::string_view name, double value, std::span<const MetricLabel> labels) {
  if (next_) next_->gauge(name, value, labels);
}

std::vector<Collected> Collector::take() {
  // The shards begin their steps at different times: steps of about the same time are one.
  std::map<std::pair<MonoDuration::rep, std::string>, std::map<std::string, HistoryBucket>> merged;
  for (auto& shard : shards_) {
    std::vector<Step> steps;
    {
      const std::lock_guard lock(shard.mutex);
      steps.swap(shard.steps);
    }
    for (const auto& [begin, counts] : steps) {
      const auto number = begin.time_since_epoch() / MonoDuration{step};
      for (const auto& [key, each] : counts) {
        add_counts(merged[{number, key.queue}][key.topic], each);
      }
    }
  }
  std::vector<Collected> all;
  for (auto& [key, topics] : merged) {
    fold_topics(topics);
    const MonoTime begin{MonoDuration{step} * key.first};
    for (auto& [topic, counts] : topics) {
      counts.topic = topic;
      all.push_back({.queue = key.second, .begin = begin, .counts = std::move(counts)});
    }
  }
  return all;
}

}  // namespace dovetail::history
