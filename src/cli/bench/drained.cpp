#include "cli/bench/drained.hpp"

#include <condition_variable>
#include <mutex>

namespace dovetail::cli::bench {
namespace {

using std::chrono::milliseconds;

constexpr double patience = 10;  // seconds without progress

/// Counts settled messages, in addition to the registry that a Platform has by default.
class SettledCount : public MetricsSink {
 public:
  void count(std::string_view name, std::uint64_t by,
             std::span<const MetricLabel> labels) override {
    registry_.count(name, by, labels);
    if (name != "dovetail_settled_total") return;
    std::lock_guard lock(mutex_);
    settled_ += static_cast<std::int64_t>(by);
    changed_.notify_one();
  }
  void time(std::string_view name, std::chrono::nanoseconds duration,
            std::span<const MetricLabel> labels) override {
    registry_.time(name, duration, labels);
  }
  void gauge(std::string_view name, double value, std::span<const MetricLabel> labels) override {
    registry_.gauge(name, value, labels);
  }

  /// Waits up to 100 ms for `wanted` messages. Returns the number of settled messages.
  std::int64_t wait_for(std::int64_t wanted) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, milliseconds{100}, [&] { return settled_ >= wanted; });
    return settled_;
  }

 private:
  MetricsRegistry registry_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t settled_ = 0;
};

void await(SettledCount& settled, std::int64_t messages, const Progress& progress) {
  std::int64_t before = 0;
  auto moved_at = Steady::now();
  for (;;) {
    const auto now = settled.wait_for(messages);
    progress(static_cast<double>(now) / static_cast<double>(messages));
    if (now >= messages) return;
    if (now > before) moved_at = Steady::now();
    before = now;
    if (seconds_since(moved_at) < patience) continue;
    throw std::invalid_argument("there were only " + std::to_string(now) +
                                " messages to drain (--messages)");
  }
}

}  // namespace

double seconds_to_drain(const Settings& settings, std::int64_t messages,
                        const std::function<void(Platform&)>& load, const Progress& progress) {
  return seconds_to_drain(
      settings, messages, load,
      [](Platform& platform) { platform.on(topic, [](const Message&, HandlerContext&) {}); },
      progress);
}

double seconds_to_drain(const Settings& settings, std::int64_t messages,
                        const std::function<void(Platform&)>& load,
                        const std::function<void(Platform&)>& prepare, const Progress& progress) {
  auto watched = settings;
  const auto settled = std::make_shared<SettledCount>();
  watched.platform.metrics = settled;
  auto platform = open(watched);
  load(platform);
  prepare(platform);
  const auto start = Steady::now();
  platform.start();
  await(*settled, messages, progress);
  const auto seconds = seconds_since(start);
  const auto counts = platform.outbox().counts();
  platform.stop();
  if (counts.ready > 0 || counts.in_progress > 0) {
    throw std::invalid_argument("there were more messages to drain (--messages)");
  }
  return seconds;
}

}  // namespace dovetail::cli::bench
