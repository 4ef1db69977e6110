// dovetail bench snapshot: the cost of an old snapshot of another transaction.
#include <algorithm>
#include <atomic>
#include <thread>

#include "cli/bench/schema.hpp"
#include "cli/bench/tools.hpp"

namespace dovetail::cli::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

/// Messages that are enqueued as fast as they are handled.
class Flow {
 public:
  explicit Flow(const Settings& settings) : platform_(open(settings)) {
    platform_.on(topic, [this](const Message&, HandlerContext&) { ++handled_; });
    platform_.start();
  }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  ~Flow() { platform_.stop(); }

  /// Runs for `seconds`, and until all messages are handled. Returns messages per second.
  double run(double seconds) {
    const auto start = Steady::now();
    const auto before = handled_.load();
    while (seconds_since(start) < seconds || handled_ < sent_) {
      if (seconds_since(start) > seconds + 60)
        throw std::runtime_error("not all messages were handled within a minute");
      if (sent_ - handled_ > 20'000 || seconds_since(start) >= seconds) {
        std::this_thread::sleep_for(milliseconds{1});
      } else {
        platform_.outbox().enqueue_many(requests_);
        sent_ += static_cast<std::int64_t>(requests_.size());
      }
    }
    return static_cast<double>(handled_ - before) / seconds_since(start);
  }

 private:
  const std::vector<EnqueueRequest> requests_{500, {.topic = topic, .payload = payload(0)}};
  std::int64_t sent_ = 0;
  std::atomic<std::int64_t> handled_{0};
  Platform platform_;
};

/// A transaction whose snapshot is older than the messages.
class OldSnapshot {
 public:
  explicit OldSnapshot(const Settings& settings)
      : platform_(open(settings)), transaction_(platform_.begin()) {
    transaction_.execute("set transaction isolation level repeatable read");
    static_cast<void>(
        transaction_.query("select count(*) from \"" + settings.platform.schema + "\".outbox"));
  }

 private:
  Platform platform_;
  Transaction transaction_;
};

/// Messages per second of each turn.
struct Turns {
  std::vector<double> clean;
  std::vector<double> held;  ///< While the old snapshot was held.
};

double turn_length(const Settings& settings) {
  constexpr double longest_turn = 3;
  return std::min(longest_turn, settings.seconds / 8);
}

void measure_clean(const Settings& settings, Turns& turns, const Progress& progress) {
  Flow flow(settings);
  const auto start = Steady::now();
  while (turns.clean.empty() || seconds_since(start) < settings.seconds / 4) {
    turns.clean.push_back(flow.run(turn_length(settings)));
    progress(seconds_since(start) / settings.seconds / 1.25);
  }
}

/// With `beside`, a database without an old snapshot, the two databases take turns, because the
/// speed of the machine changes from one minute to the next.
void measure_held(const Settings& settings, const Settings* beside, Turns& turns,
                  const Progress& progress) {
  const OldSnapshot old(settings);
  Flow flow(settings);
  const auto other = beside != nullptr ? std::make_unique<Flow>(*beside) : nullptr;
  const auto start = Steady::now();
  while (seconds_since(start) < settings.seconds || turns.held.empty()) {
    const bool is_old = seconds_since(start) >= settings.seconds / 2;
    const auto held = flow.run(turn_length(settings));
    if (is_old) turns.held.push_back(held);
    if (other) {
      const auto clean = other->run(turn_length(settings));
      if (is_old) turns.clean.push_back(clean);
    }
    progress(seconds_since(start) / settings.seconds);
  }
}

}  // namespace

Findings snapshot(const Settings& settings, const Progress& progress) {
  Turns turns;
  if (settings.beside.empty()) {
    measure_clean(settings, turns, progress);
    measure_held(settings, nullptr, turns, progress);
  } else {
    if (!is_postgres(settings.beside)) {
      throw std::invalid_argument("--beside wants another database of the same PostgreSQL server");
    }
    auto beside = settings;
    beside.url = settings.beside;
    const OwnSchema schema(beside);
    measure_held(settings, &beside, turns, progress);
  }
  const auto with = middle(turns.held);
  const auto without = middle(turns.clean);
  return {{"old snapshot", "held for " + fixed(settings.seconds, 0) + " s",
           with_thousands(with) + " messages/s, " + with_thousands(without) + " without",
           ordered_json{{"per_second", with},
                        {"clean_per_second", without},
                        {"ratio", with / without},
                        {"turns", turns.held},
                        {"clean_turns", turns.clean}}}};
}

}  // namespace dovetail::cli::bench
