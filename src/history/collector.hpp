// Counts the work of a process by queue and topic, in steps of 10 s, until a flush takes the
// counts.
//
// It is a MetricsSink in front of the user's: it reads the measurements of messages on their way.
// Threads use different shards, as far as there are enough. Memory is bounded: further topics of a
// step become "other", and further steps are added to the last one.
//
// Threads: from any.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/history.hpp"
#include "dovetail/metrics.hpp"

namespace dovetail::history {

/// The counts of a queue and a topic in one step.
struct Collected {
  std::string queue;
  MonoTime begin{};  ///< Of the step.
  HistoryBucket counts{};
};

class Collector final : public MetricsSink {
 public:
  static constexpr std::chrono::seconds step{10};
  static constexpr std::size_t most_topics = 200;  ///< In one step of one queue.
  static constexpr std::size_t most_steps = 30;

  Collector(std::shared_ptr<MetricsSink> next, std::shared_ptr<Clock> clock)
      : next_(std::move(next)), clock_(std::move(clock)) {}

  void count(std::string_view name, std::uint64_t by, std::span<const MetricLabel> labels) override;
  void time(std::string_view name, std::chrono::nanoseconds duration,
            std::span<const MetricLabel> labels) override;
  void gauge(std::string_view name, double value, std::span<const MetricLabel> labels) override;

  /// Begins to count: from now on, take() is called.
  void open() { open_ = true; }
  /// Takes the counts so far, at most `most_topics` for each step and queue.
  [[nodiscard]] std::vector<Collected> take();

 private:
  struct Key {
    std::string_view queue;
    std::string_view topic;
  };
  struct OwnKey {
    std::string queue;
    std::string topic;
  };
  struct KeyHash {
    using is_transparent = void;
    template <class Some>
    std::size_t operator()(const Some& key) const {
      const std::hash<std::string_view> hash;
      return hash(key.topic) * 31 + hash(key.queue);
    }
  };
  struct KeyEqual {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return a.topic == b.topic && a.queue == b.queue;
    }
  };
  using Counts = std::unordered_map<OwnKey, HistoryBucket, KeyHash, KeyEqual>;
  struct Step {
    MonoTime begin{};
    Counts counts{};
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    std::vector<Step> steps;
  };

  /// Calls `add` with the counts of the measurement's queue and topic.
  template <class Add>
  void collect(std::span<const MetricLabel> labels, const Add& add);

  const std::shared_ptr<MetricsSink> next_;
  const std::shared_ptr<Clock> clock_;
  std::atomic<bool> open_{false};
  std::array<Shard, 8> shards_;
};

}  // namespace dovetail::history
