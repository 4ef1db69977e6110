// dovetail bench joins: the cost of a join for its steps, and the delay of its continuation.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "cli/bench/tools.hpp"

namespace dovetail::cli::bench {
namespace {

using std::chrono::milliseconds;

constexpr int most_steps = 50'000;  // of the one join
constexpr int join_workers = 4;
constexpr int joins_rate = 10;  // a second

/// All messages are steps of one join, and several workers ack them.
Finding hot_join(const Settings& settings, const Progress& progress) {
  auto smaller = settings;
  smaller.messages = std::min(settings.messages, most_steps);
  auto platform = open(smaller);
  std::vector<EnqueueRequest> steps;
  steps.reserve(static_cast<std::size_t>(smaller.messages));
  for (int i = 0; i < smaller.messages; ++i)
    steps.push_back({.topic = topic, .payload = payload(i)});
  const auto fan = platform.joins().fan_out({.steps = std::move(steps)});
  std::vector<Platform> workers;
  for (int i = 0; i < (is_postgres(settings.url) ? join_workers : 1); ++i) {
    workers.push_back(open(smaller));
    workers.back().on(topic, [](const Message&, HandlerContext&) {});
  }
  const auto start = Steady::now();
  for (auto& worker : workers) worker.start();
  for (;;) {
    const auto join = platform.joins().find(fan.join);
    progress(static_cast<double>(join->completed_steps) / smaller.messages / 2);
    if (join->status != JoinStatus::pending) break;
    std::this_thread::sleep_for(milliseconds{2});
  }
  return rate("one hot join", std::to_string(workers.size()) + " workers, " + described(settings),
              smaller.messages, seconds_since(start));
}

/// The time from the end of a join's last step to the start of its continuation.
Finding continuation(const Settings& settings, const Progress& progress) {
  auto platform = open(settings);
  std::mutex mutex;
  std::vector<double> samples;
  std::atomic<Steady::rep> ended{0};
  platform.on(topic, [&](const Message&, HandlerContext&) {
    ended = Steady::now().time_since_epoch().count();
  });
  platform.on("continued", [&](const Message&, HandlerContext&) {
    const auto passed = seconds_since(Steady::time_point{Steady::duration{ended.load()}}) * 1e3;
    std::lock_guard lock(mutex);
    samples.push_back(passed);
  });
  platform.start();
  const auto count = static_cast<std::size_t>(std::ceil(settings.seconds * joins_rate)) + 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto join = platform.joins().start({.expected_steps = 1});
    platform.joins().enqueue_wait(join, {.on_complete_topic = "continued"});
    std::this_thread::sleep_for(milliseconds{1'000 / joins_rate / 2});  // until the message waits
    platform.outbox().enqueue({.topic = topic, .joins = {join}});
    const auto patience = in_seconds(10);
    const auto came = [&] {
      std::lock_guard lock(mutex);
      return samples.size() > i;
    };
    while (!came() && Steady::now() < patience) std::this_thread::sleep_for(milliseconds{1});
    if (!came()) throw std::runtime_error("a continuation did not come within ten seconds");
    progress((1 + static_cast<double>(i + 1) / static_cast<double>(count)) / 2);
    std::this_thread::sleep_for(milliseconds{1'000 / joins_rate / 2});
  }
  platform.stop();
  samples.erase(samples.begin());  // the first one warms up
  return times("continuation", "after the last step's handler", samples);
}

}  // namespace

Findings joins(const Settings& settings, const Progress& progress) {
  return {hot_join(settings, progress), continuation(settings, progress)};
}

}  // namespace dovetail::cli::bench
