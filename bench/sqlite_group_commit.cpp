// How much group commit gains: single messages enqueued from 8 threads against one fsync per message, on the
// same disk, in the same run, interleaved in rounds, with synchronous=FULL on both sides.
//
//   sqlite_group_commit [directory]
//
// The baseline is SQLite alone: one prepared INSERT of the same row per transaction, no code of Dovetail's.
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/dovetail.hpp"

namespace {

using Seconds = std::chrono::duration<double>;

constexpr int rounds = 5;
constexpr int threads = 8;
constexpr auto round_length = std::chrono::milliseconds{1'000};
const std::string payload(100, 'x');

/// Calls `enqueue` from `count` threads for the length of a round; answers calls a second.
template <class Function>
double rate(int count, const Function& enqueue) {
  std::vector<std::jthread> workers;
  std::vector<long> done(static_cast<std::size_t>(count), 0);
  const auto start = std::chrono::steady_clock::now();
  for (auto& counter : done) {
    workers.emplace_back([&] {
      while (std::chrono::steady_clock::now() - start < round_length) {
        enqueue();
        ++counter;
      }
    });
  }
  workers.clear();
  long total = 0;
  for (auto counter : done) total += counter;
  return static_cast<double>(total) / Seconds{std::chrono::steady_clock::now() - start}.count();
}

/// The raw engine with the schema that Dovetail deployed: one row, one commit, one fsync.
class RawInserts {
 public:
  explicit RawInserts(const std::string& path) {
    sqlite3_open(path.c_str(), &connection_);
    sqlite3_exec(connection_, "pragma journal_mode = wal; pragma synchronous = full", nullptr, nullptr,
                 nullptr);
    sqlite3_prepare_v2(
        connection_,
        "insert into infra_outbox (id, topic, payload, due_at, created_at) values (?1, 'bench', ?2, 1, 1)",
        -1, &insert_, nullptr);
  }
  ~RawInserts() {
    sqlite3_finalize(insert_);
    sqlite3_close(connection_);
  }
  RawInserts(const RawInserts&) = delete;
  RawInserts& operator=(const RawInserts&) = delete;

  void insert(int rows = 1) {
    if (rows > 1) sqlite3_exec(connection_, "begin immediate", nullptr, nullptr, nullptr);
    for (int i = 0; i < rows; ++i) insert_row();
    if (rows > 1) sqlite3_exec(connection_, "commit", nullptr, nullptr, nullptr);
  }

 private:
  void insert_row() {
    const auto id = dovetail::Uuid::v7();
    sqlite3_bind_blob(insert_, 1, id.bytes().data(), 16, SQLITE_STATIC);
    sqlite3_bind_text(insert_, 2, payload.data(), static_cast<int>(payload.size()), SQLITE_STATIC);
    if (sqlite3_step(insert_) != SQLITE_DONE)
      std::fprintf(stderr, "raw insert: %s\n", sqlite3_errmsg(connection_));
    sqlite3_reset(insert_);
  }

  sqlite3* connection_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const auto directory = std::filesystem::path{argc > 1 ? argv[1] : "."} / "dovetail-bench";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  auto platform =
      dovetail::Platform::open("sqlite:" + (directory / "dovetail.db").string(), {.deploy_schema = true});
  dovetail::Platform::migrate("sqlite:" + (directory / "raw.db").string());
  RawInserts raw((directory / "raw.db").string());
  const auto enqueue = [&] { platform.outbox().enqueue({.topic = "bench", .payload = payload}); };

  std::vector<double> raw_rates;
  std::vector<double> raw_batches;
  std::vector<double> one_thread;
  std::vector<double> eight_threads;
  for (int round = 0; round < rounds; ++round) {
    raw_rates.push_back(rate(1, [&] { raw.insert(); }));
    raw_batches.push_back(threads * rate(1, [&] { raw.insert(threads); }));
    one_thread.push_back(rate(1, enqueue));
    eight_threads.push_back(rate(threads, enqueue));
  }
  const auto baseline = median(raw_rates);
  std::printf("%-44s %10s %8s\n", "single messages, synchronous=FULL", "a second", "ratio");
  std::printf("%-44s %10.0f %8.2f\n", "raw SQLite, one fsync each", baseline, 1.0);
  std::printf("%-44s %10.0f %8.2f\n", "raw SQLite, one fsync for 8", median(raw_batches),
              median(raw_batches) / baseline);
  std::printf("%-44s %10.0f %8.2f\n", "Dovetail, 1 thread", median(one_thread),
              median(one_thread) / baseline);
  std::printf("%-44s %10.0f %8.2f\n", "Dovetail, 8 threads", median(eight_threads),
              median(eight_threads) / baseline);
  std::filesystem::remove_all(directory);
}
