// Fan-in: three extractions run in parallel. When all of them are done, the transformation runs.
//
//   join_etl
//
// Handlers do not know about the join: the ack of a message counts the step.
#include <dovetail/dovetail.hpp>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <iostream>

namespace {

int run(const std::string& file) {
  auto platform = dovetail::Platform::open("sqlite:" + file, {.deploy_schema = true});

  std::atomic<int> extracted{0};
  for (const auto* topic : {"extract.customers", "extract.orders", "extract.products"}) {
    platform.on(topic, [&](const dovetail::Message&, dovetail::HandlerContext&) { ++extracted; });
  }
  std::atomic<int> found{-1};
  platform.on("etl.transform", [&](const dovetail::Message& message, dovetail::HandlerContext&) {
    std::cout << "transforming " << message.payload << " after " << extracted << " extractions\n";
    found = extracted.load();
    found.notify_one();
  });

  // This example uses the single calls, for programs whose messages come from different places. One
  // transaction stores everything.
  auto tx = platform.begin();
  const auto join =
      platform.joins().start(tx, {.grouping_key = "CUST-123",
                                  .expected_steps = 3,
                                  .metadata = R"({"type": "etl", "phase": "extract"})"});
  for (const auto* topic : {"extract.customers", "extract.orders", "extract.products"}) {
    const auto message = platform.outbox().enqueue(tx, {.topic = topic, .payload = "CUST-123"});
    platform.joins().attach(tx, join, message);
  }
  platform.joins().enqueue_wait(tx, join,
                                {.on_complete_topic = "etl.transform",
                                 .on_complete_payload = "CUST-123",
                                 .on_fail_topic = "etl.extract.failed",
                                 .on_fail_payload = "CUST-123"});
  tx.commit();

  platform.start();
  found.wait(-1);
  platform.stop();
  return found == 3 ? 0 : 1;
}

}  // namespace

int main() {
  const std::string file = "join_etl.db";
  const int code = run(file);
  for (const auto* suffix : {"", "-wal", "-shm", "-lock"}) std::filesystem::remove(file + suffix);
  return code;
}
