// dovetail bench fanout: the speed of fan-out rounds, compared with a bulk enqueue of the same
// number of messages.
#include <sys/resource.h>

#include <algorithm>

#include "cli/bench/tools.hpp"

namespace dovetail::cli::bench {
namespace {

constexpr int shards_per_page = 5'000;  // of the planner

const FanoutPlan& bench_plan() {
  static const FanoutPlan plan{.topic = topic, .work_key = "work"};
  return plan;
}

FanoutCandidates candidates_of(int count, const Progress& progress) {
  return FanoutCandidates::in_pages(
      [count, progress, next = 0](std::vector<FanoutCandidate>& page) mutable {
        if (next >= count) return false;
        progress(static_cast<double>(next) / count);
        for (int i = 0; i < shards_per_page && next < count; ++i, ++next)
          page.push_back({.shard_key = "tenant-" + std::to_string(next)});
        return true;
      });
}

struct TimedRound {
  FanoutRound round;
  double seconds = 0;
};

TimedRound timed(Platform& platform, int count, const Progress& progress) {
  const auto start = Steady::now();
  const auto round = platform.fanout().enqueue_due(bench_plan(), candidates_of(count, progress));
  return {round, seconds_since(start)};
}

void require_enqueued(const TimedRound& timed, std::size_t expected) {
  if (timed.round.enqueued == expected) return;
  throw std::runtime_error("a round enqueued " + std::to_string(timed.round.enqueued) +
                           " slices instead of " + std::to_string(expected));
}

/// Marks all slices as completed a day ago.
void complete_slices(Platform& platform, const Settings& settings) {
  const auto& schema = settings.platform.schema;
  auto transaction = platform.begin();
  if (is_postgres(settings.url)) {
    transaction.execute("update \"" + schema +
                        "\".fanout_cursor set last_completed_at = enqueued_at - interval '1 day', "
                        "message_id = null");
  } else {
    transaction.execute("update \"" + schema +
                        "_fanout_cursor\" set last_completed_at = enqueued_at - 86400000000, "
                        "message_id = null");
  }
  transaction.commit();
}

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Compares a round with a bulk enqueue of the same number of messages.
Finding compared(const std::string& measure, const Settings& settings, const TimedRound& timed,
                 double bulk_per_second) {
  const auto per_second = static_cast<double>(timed.round.candidates) / timed.seconds;
  const auto ratio = per_second / bulk_per_second;
  return {measure,
          with_thousands(settings.messages) + " shards",
          with_thousands(per_second) + " shards/s, " + fixed(ratio, 2) +
              " times the bulk enqueue of as many messages",
          {{"shards", settings.messages},
           {"enqueued", timed.round.enqueued},
           {"seconds", timed.seconds},
           {"per_second", per_second},
           {"bulk_per_second", bulk_per_second},
           {"ratio", ratio}}};
}

}  // namespace

Findings fanout(const Settings& settings, const Progress& progress) {
  auto platform = open(settings);
  platform.fanout().add({.topic = topic, .work_key = "work", .cron = "0 0 1 1 *"},
                        [](const FanoutPlan&) { return std::vector<FanoutCandidate>{}; });
  const auto quarter = [&](int number) {
    return [&, number](double share) { progress((number + share) / 4); };
  };
  const auto count = static_cast<std::size_t>(settings.messages);
  const auto before = peak_megabytes();
  const auto first = timed(platform, settings.messages, quarter(0));
  const auto grown = peak_megabytes() - before;
  require_enqueued(first, count);
  const auto look = timed(platform, settings.messages, quarter(1));
  require_enqueued(look, 0);
  complete_slices(platform, settings);
  const auto next = timed(platform, settings.messages, quarter(2));
  require_enqueued(next, count);
  const auto bulk = load(platform, settings, quarter(3)).figures.at("per_second").get<double>();
  auto memory = Finding{"memory of a round",
                        with_thousands(settings.messages) + " shards",
                        fixed(grown, 1) + " MB more at the peak",
                        {{"shards", settings.messages}, {"peak_growth_mb", grown}}};
  return {compared("first round: all shards are new", settings, first, bulk),
          compared("look: all messages wait", settings, look, bulk),
          compared("next round: all shards are due", settings, next, bulk), std::move(memory)};
}

}  // namespace dovetail::cli::bench
