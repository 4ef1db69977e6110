// dovetail bench enqueue, bulk, drain, latency: the way of a message through the outbox.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "cli/bench/drained.hpp"

namespace dovetail::cli::bench {
namespace {

using std::chrono::milliseconds;

constexpr int latency_rate = 20;

}  // namespace

Findings enqueue(const Settings& settings, const Progress& progress) {
  auto options = settings;
  options.platform.max_connections = static_cast<std::size_t>(settings.connections);
  auto platform = open(options);
  std::atomic<std::int64_t> sent{0};
  const auto warm_up = std::min(0.5, settings.seconds / 4);  // after it connections are open
  const auto start = in_seconds(warm_up);
  const auto end = in_seconds(warm_up + settings.seconds);
  const int callers = settings.callers > 0 ? settings.callers : settings.connections;
  on_threads(callers, [&](int thread) {
    for (auto now = Steady::now(); now < end; now = Steady::now()) {
      platform.outbox().enqueue({.topic = topic, .payload = payload(thread)});
      if (now >= start) ++sent;
      progress(std::max(0.0, seconds_since(start)) / settings.seconds);
    }
  });
  return {rate("enqueue", std::to_string(callers) + " at once, without a transaction of their own",
               sent, seconds_since(start))};
}

Findings bulk(const Settings& settings, const Progress& progress) {
  auto platform = open(settings);
  return {load(platform, settings, progress)};
}

Findings drain(const Settings& settings, const Progress& progress) {
  const auto load_all = [&](Platform& platform) {
    if (settings.preloaded) return;
    load(platform, settings, [&](double share) { progress(share / 2); });
  };
  const auto seconds = seconds_to_drain(settings, settings.messages, load_all,
                                        [&](double share) { progress((1 + share) / 2); });
  return {rate("drain", described(settings), settings.messages, seconds)};
}

Findings latency(const Settings& settings, const Progress& progress) {
  auto platform = open(settings);
  std::mutex mutex;
  std::vector<double> samples;
  platform.on(topic, [&](const Message& message, HandlerContext&) {
    const Steady::time_point begun{Steady::duration{number_in(message.payload)}};
    const auto passed = seconds_since(begun) * 1e3;
    std::lock_guard lock(mutex);
    samples.push_back(passed);
  });
  platform.start();
  // On PostgreSQL, another platform enqueues, as another process would, and NOTIFY wakes the
  // worker. A SQLite file has one owner.
  auto other = is_postgres(settings.url) ? std::optional{open(settings)} : std::nullopt;
  auto& outbox = (other ? *other : platform).outbox();
  const auto warm_up = std::size_t{latency_rate};
  const auto count = warm_up + static_cast<std::size_t>(std::ceil(settings.seconds * latency_rate));
  const auto start = Steady::now();
  for (std::size_t i = 0; i < count; ++i) {
    std::this_thread::sleep_until(start + milliseconds{1'000 / latency_rate} * i);
    outbox.enqueue({.topic = topic, .payload = payload(Steady::now().time_since_epoch().count())});
    progress(static_cast<double>(i + 1) / static_cast<double>(count));
  }
  const auto patience = in_seconds(10);
  const auto all_came = [&] {
    std::lock_guard lock(mutex);
    return samples.size() >= count;
  };
  while (!all_came() && Steady::now() < patience) std::this_thread::sleep_for(milliseconds{10});
  platform.stop();
  if (!all_came()) throw std::runtime_error("not all messages were handled within ten seconds");
  samples.erase(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(warm_up));
  return {times("latency", std::to_string(latency_rate) + " messages a second", samples)};
}

}  // namespace dovetail::cli::bench
