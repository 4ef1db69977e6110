// Fan-out: an ETL runs for every tenant, and each run continues where the last one ended.
//
//   fanout_etl
//
// The ETL has two work keys: payments and vendors. The planner names the tenants. Dovetail finds
// the tenants whose work is due, and enqueues a message for each. The handler copies the rows of
// its window. The copy, the end of the window and the ack commit together: no row is copied twice.
// None is missed if its transaction commits within `settle` after it took the time.
#include <dovetail/dovetail.hpp>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <thread>

namespace {

using namespace std::chrono_literals;

void insert(dovetail::Platform& platform, const std::string& table, const std::string& tenant) {
  auto tx = platform.begin();
  tx.execute("insert into " + table + " (tenant, changed_at) values ($1, $2)", tenant,
             dovetail::system_clock()->wall());
  tx.commit();
}

/// Pages of tenants, as a service reads them from its own table. Both work keys use it.
class EtlPlanner final : public dovetail::FanoutPlanner {
 public:
  explicit EtlPlanner(dovetail::Platform& platform) : platform_(platform) {}

  [[nodiscard]] dovetail::FanoutCandidates candidates(const dovetail::FanoutPlan&) override {
    return dovetail::FanoutCandidates::in_pages(
        [this, last = std::string{}](std::vector<dovetail::FanoutCandidate>& page) mutable {
          auto tx = platform_.begin();
          const auto rows =
              tx.query("select id from tenants where id > $1 order by id limit 1000", last);
          for (const auto& row : rows) page.push_back({.shard_key = row.get<std::string>(0)});
          if (!page.empty()) last = page.back().shard_key;
          return !page.empty();
        });
  }

 private:
  dovetail::Platform& platform_;
};

/// The work key is the name of the table.
void copy_rows(const dovetail::FanoutSlice& slice, dovetail::HandlerContext& ctx) {
  ctx.transaction().execute(
      "insert into warehouse select '" + slice.work_key + "', tenant, changed_at from " +
          slice.work_key + " where tenant = $1 and changed_at >= $2 and changed_at < $3",
      slice.shard_key, slice.window_start.value_or(dovetail::WallTime{}), slice.window_end);
}

std::int64_t copied(dovetail::Platform& platform, const std::string& kind) {
  auto tx = platform.begin();
  return tx.query("select count(*) from warehouse where kind = $1", kind)
      .at(0)
      .get<std::int64_t>(0);
}

/// Longer than every transaction that inserts a payment. With PostgreSQL and real transactions, a
/// minute is a good value.
constexpr auto settle = 100ms;

int run(const std::string& file) {
  auto platform = dovetail::Platform::open("sqlite:" + file, {.deploy_schema = true});
  {
    auto tx = platform.begin();
    tx.execute("create table tenants (id text primary key)");
    tx.execute("create table payments (tenant text, changed_at integer)");
    tx.execute("create table vendors (tenant text, changed_at integer)");
    tx.execute("create table warehouse (kind text, tenant text, changed_at integer)");
    tx.execute("insert into tenants values ('acme'), ('globex'), ('initech')");
    tx.commit();
  }

  // A real service runs a round every ten minutes. Here, rounds follow each other at once.
  const auto planner = std::make_shared<EtlPlanner>(platform);
  for (const std::string work_key : {"payments", "vendors"}) {
    platform.fanout().add({.topic = "etl",
                           .work_key = work_key,
                           .cron = "*/10 * * * *",
                           .every = 1ms,
                           .jitter = 0ms,
                           .settle = settle,
                           .join = true},
                          planner);
    platform.fanout().on("etl", work_key, copy_rows);
  }
  std::atomic<int> rounds{0};  // of both work keys
  platform.on(dovetail::fanout_done_topic("etl"),
              [&](const dovetail::Message&, dovetail::HandlerContext&) {
                ++rounds;
                rounds.notify_one();
              });
  platform.start();

  for (int round = 1; round <= 3; ++round) {
    for (const auto* tenant : {"acme", "globex", "initech", "acme"})
      insert(platform, "payments", tenant);
    insert(platform, "vendors", "globex");
    std::this_thread::sleep_for(settle + 10ms);  // so that this round copies them
    platform.fanout().run_now("etl");            // in addition to the schedule
    for (int seen = rounds; seen < 2 * round; seen = rounds) rounds.wait(seen);
    std::cout << "after round " << round << ": " << copied(platform, "payments") << " payments and "
              << copied(platform, "vendors") << " vendors in the warehouse\n";
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
