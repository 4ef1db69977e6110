// The work coordinator: `coordinator DATABASE [seconds=N] [rate=N] [instances=N]`. Prints
//   the latency of an operation with each strategy, from the call until it is durable,
//   the calls per message of the interval strategy at a steady rate,
//   the time of an idle call, as callers and as the server see it.
// The database must be empty.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dovetail/dovetail.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct Arguments {
  std::string url;
  int seconds = 5;
  int rate = 1'000;
  int instances = 10;
};

Arguments parse(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: coordinator DATABASE [seconds=N] [rate=N] [instances=N]\n");
    std::exit(2);
  }
  Arguments arguments{.url = argv[1]};
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&](std::string_view name, int& target) {
      if (argument.starts_with(name)) target = std::atoi(argument.substr(name.size()).data());
    };
    value("seconds=", arguments.seconds);
    value("rate=", arguments.rate);
    value("instances=", arguments.instances);
  }
  return arguments;
}

Platform open(const std::string& url) {
  return Platform::open(url, {.deploy_schema = true, .log_sink = null_log_sink()});
}

double at(std::vector<double>& sorted, double part) {
  std::ranges::sort(sorted);
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

void print(const char* what, std::vector<double> times, const CoordinatorStats& stats) {
  const auto calls = stats.operations == 0
                         ? 0.0
                         : static_cast<double>(stats.calls) / static_cast<double>(stats.operations);
  std::printf("%-22s p50 %8.2f ms   p99 %8.2f ms   %.4f calls per message\n", what, at(times, 0.5),
              at(times, 0.99), calls);
}

EnqueueRequest message(int i) {
  return {.topic = "order.placed",
          .payload = R"({"order": 4711, "amount": 12345, "currency": "EUR"})",
          .stream = "order-" + std::to_string(i % 100)};
}

double since(Steady::time_point begun) {
  return Milliseconds{Steady::now() - begun}.count();
}

// --- the latency classes

void measure_immediate(WorkBatches& work, int messages) {
  Coordinator coordinator{work, {.strategy = WorkStrategy::immediate}};
  std::vector<double> times;
  for (int i = 0; i < messages; ++i) {
    const auto begun = Steady::now();
    coordinator.queue_outbox_message(message(i));
    times.push_back(since(begun));
  }
  print("immediate", times, coordinator.stats());
}

void measure_scoped(WorkBatches& work, int scopes) {
  constexpr int per_scope = 10;
  std::vector<double> times;
  CoordinatorStats total;
  for (int scope = 0; scope < scopes; ++scope) {
    Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
    const auto begun = Steady::now();
    for (int i = 0; i < per_scope; ++i) coordinator.queue_outbox_message(message(i));
    coordinator.flush();
    times.push_back(since(begun));
    total.calls += coordinator.stats().calls;
    total.operations += coordinator.stats().operations;
  }
  print("scoped, 10 per scope", times, total);
}

/// Queues messages at a steady rate.
void measure_interval(WorkBatches& work, const Arguments& arguments) {
  std::mutex mutex;
  std::deque<Steady::time_point> queued;
  std::vector<double> times;
  CoordinatorStats stats;
  {
    Coordinator coordinator{
        work, {.strategy = WorkStrategy::interval, .on_result = [&](const WorkResult& result) {
                 const std::scoped_lock lock{mutex};
                 for (std::size_t i = 0; i < result.outbox.size(); ++i) {
                   times.push_back(since(queued.front()));
                   queued.pop_front();
                 }
               }}};
    const auto begun = Steady::now();
    for (int i = 0; i < arguments.rate * arguments.seconds; ++i) {
      std::this_thread::sleep_until(begun + i * 1'000'000us / arguments.rate);
      {
        const std::scoped_lock lock{mutex};
        queued.push_back(Steady::now());
      }
      coordinator.queue_outbox_message(message(i));
    }
    while (coordinator.buffered() > 0) std::this_thread::sleep_for(1ms);
    stats = coordinator.stats();
  }
  const std::scoped_lock lock{mutex};
  print(("interval, " + std::to_string(arguments.rate) + "/s").c_str(), times, stats);
}

// --- an idle call

/// The time that the server needs for one call, while the instances poll.
double server_time(Platform& platform) {
  auto transaction = platform.begin();
  const auto rows = transaction.query(R"(
    with begun as materialized (select clock_timestamp() as at),
    calls as materialized (
      select count(infra.process_work_batch(jsonb_build_object(
               'instance', '0190163d-8694-739b-aea5-966c26f8ad91', 'outbox',
               jsonb_build_object('claim', '{}'::jsonb), 'inbox',
               jsonb_build_object('claim', '{}'::jsonb), 'notify', (begun.at is null)))) as n
        from begun, generate_series(1, 500))
    select (extract(epoch from clock_timestamp() - begun.at) * 1000 / calls.n)::float8
      from begun, calls)");
  return rows.at(0).get<double>(0);
}

void measure_idle(const Arguments& arguments) {
  std::mutex mutex;
  std::vector<double> times;
  double server = 0;
  {
    std::vector<std::jthread> instances;
    for (int i = 0; i < arguments.instances; ++i) {
      instances.emplace_back([&](const std::stop_token& stop) {
        auto platform = open(arguments.url);
        Coordinator coordinator{platform.work(),
                                {.strategy = WorkStrategy::scoped,
                                 .claim_outbox = WorkClaim{},
                                 .claim_inbox = WorkClaim{}}};
        while (!stop.stop_requested()) {
          const auto begun = Steady::now();
          coordinator.flush_and_claim();
          {
            const std::scoped_lock lock{mutex};
            times.push_back(since(begun));
          }
          std::this_thread::sleep_for(100ms);
        }
      });
    }
    std::this_thread::sleep_for(2s);
    {
      const std::scoped_lock lock{mutex};
      times.clear();  // connections and plans
    }
    std::this_thread::sleep_for(std::chrono::seconds{arguments.seconds});
    auto platform = open(arguments.url);
    if (!arguments.url.starts_with("sqlite")) server = server_time(platform);
  }
  print("idle call", times, {});
  std::printf("%-22s %8.3f ms at the server, %d instances\n", "idle call", server,
              arguments.instances);
}

void drain(WorkBatches& work) {
  for (;;) {
    const auto claimed = work.process_work_batch({.claim_outbox = WorkClaim{.batch_size = 1'000}});
    if (claimed.work.empty()) return;
    WorkBatch done;
    for (const auto& each : claimed.work) done.completions.push_back({each.queue, each.claim, {}});
    work.process_work_batch(done);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  {
    auto platform = open(arguments.url);
    measure_immediate(platform.work(), 500);
    measure_scoped(platform.work(), 200);
    measure_interval(platform.work(), arguments);
    drain(platform.work());
  }
  measure_idle(arguments);
}
