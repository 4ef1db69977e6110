// Fan-out: an ETL runs for every tenant, and each run continues where the last one ended.
//
//   fanout_etl
//
// The planner names the tenants. Dovetail finds the tenants whose work is due, and enqueues a
// message for each. The handler copies the payments of its window. The copy, the end of the window
// and the ack commit together: no payment is copied twice. None is missed if its transaction
// commits within `settle` after it took the time.
#include <dovetail/dovetail.hpp>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <thread>

namespace {

using namespace std::chrono_literals;

void insert_payment(dovetail::Platform& platform, const std::string& tenant) {
  auto tx = platform.begin();
  tx.execute("insert into payments (tenant, paid_at) values ($1, $2)", tenant,
             dovetail::system_clock()->wall());
  tx.commit();
}

/// Pages of tenants, as a service reads them from its own table.
dovetail::FanoutCandidates tenants(dovetail::Platform& platform) {
  return dovetail::FanoutCandidates::in_pages(
      [&platform, last = std::string{}](std::vector<dovetail::FanoutCandidate>& page) mutable {
        auto tx = platform.begin();
        const auto rows =
            tx.query("select id from tenants where id > $1 order by id limit 1000", last);
        for (const auto& row : rows) page.push_back({.shard_key = row.get<std::string>(0)});
        if (!page.empty()) last = page.back().shard_key;
        return !page.empty();
      });
}

void copy_payments(const dovetail::FanoutSlice& slice, dovetail::HandlerContext& ctx) {
  ctx.transaction().execute(
      "insert into warehouse select tenant, paid_at from payments "
      "where tenant = $1 and paid_at >= $2 and paid_at < $3",
      slice.shard_key, slice.window_start.value_or(dovetail::WallTime{}), slice.window_end);
}

/// Longer than every transaction that inserts a payment. With PostgreSQL and real transactions, a
/// minute is a good value.
constexpr auto settle = 100ms;

int run(const std::string& file) {
  auto platform = dovetail::Platform::open("sqlite:" + file, {.deploy_schema = true});
  {
    auto tx = platform.begin();
    tx.execute("create table tenants (id text primary key)");
    tx.execute("create table payments (tenant text, paid_at integer)");
    tx.execute("create table warehouse (tenant text, paid_at integer)");
    tx.execute("insert into tenants values ('acme'), ('globex'), ('initech')");
    tx.commit();
  }

  // A real service runs a round every ten minutes. Here, rounds follow each other at once.
  platform.fanout().add({.topic = "etl",
                         .work_key = "payments",
                         .cron = "*/10 * * * *",
                         .every = 1ms,
                         .jitter = 0ms,
                         .settle = settle,
                         .join = true},
                        [&](const dovetail::FanoutPlan&) { return tenants(platform); });
  platform.fanout().on("etl", "payments", copy_payments);
  std::atomic<int> rounds{0};
  platform.on(dovetail::fanout_done_topic("etl"),
              [&](const dovetail::Message&, dovetail::HandlerContext&) {
                ++rounds;
                rounds.notify_one();
              });
  platform.start();

  for (int round = 1; round <= 3; ++round) {
    for (const auto* tenant : {"acme", "globex", "initech", "acme"})
      insert_payment(platform, tenant);
    std::this_thread::sleep_for(settle + 10ms);  // so that this round copies them
    platform.fanout().run_now("etl");            // in addition to the schedule
    rounds.wait(round - 1);
    auto tx = platform.begin();
    std::cout << "after round " << round << ": "
              << tx.query("select count(*) from warehouse").at(0).get<std::int64_t>(0)
              << " payments in the warehouse\n";
  }
  platform.stop();
  return 0;
}

}  // namespace

int main() {
  const std::string file = "fanout_etl.db";
  const int code = run(file);
  for (const auto* suffix : {"", "-wal", "-shm", "-lock"}) std::filesystem::remove(file + suffix);
  return code;
}
