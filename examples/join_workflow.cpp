// A workflow in stages: it ingests three sources, runs two validations, and publishes the result.
// Each stage starts the next in the transaction of its own ack, so that a crash neither repeats nor
// skips a stage.
//
//   join_workflow
#include <dovetail/dovetail.hpp>

#include <atomic>
#include <filesystem>
#include <iostream>

namespace {

int run(const std::string& file) {
  auto platform = dovetail::Platform::open("sqlite:" + file, {.deploy_schema = true});
  std::atomic<int> ingested{0};
  std::atomic<int> validated{0};
  platform.on("ingest", [&](const dovetail::Message&, dovetail::HandlerContext&) { ++ingested; });
  platform.on("validate",
              [&](const dovetail::Message&, dovetail::HandlerContext&) { ++validated; });

  platform.on("workflow.start-validation", [&](const dovetail::Message& workflow,
                                               dovetail::HandlerContext& context) {
    std::cout << workflow.payload << ": " << ingested << " sources ingested, validating\n";
    platform.joins().fan_out(context.transaction(),  // commits with this message's ack
                             {.grouping_key = workflow.payload,
                              .metadata = R"({"stage": "validation"})",
                              .steps = {{.topic = "validate", .payload = "schema"},
                                        {.topic = "validate", .payload = "business-rules"}},
                              .wait = {{.on_complete_topic = "workflow.publish",
                                        .on_complete_payload = workflow.payload}}});
  });
  std::atomic<bool> published{false};
  platform.on(
      "workflow.publish", [&](const dovetail::Message& workflow, dovetail::HandlerContext&) {
        std::cout << workflow.payload << ": " << validated << " validations passed, published\n";
        published = true;
        published.notify_one();
      });

  platform.joins().fan_out({.grouping_key = "workflow-7",
                            .metadata = R"({"stage": "ingestion"})",
                            .steps = {{.topic = "ingest", .payload = "source 1"},
                                      {.topic = "ingest", .payload = "source 2"},
                                      {.topic = "ingest", .payload = "source 3"}},
                            .wait = {{.on_complete_topic = "workflow.start-validation",
                                      .on_complete_payload = "workflow-7"}}});
  platform.start();
  published.wait(false);
  platform.stop();
  const auto stages = platform.joins().list({.grouping_key = "workflow-7"});
  return stages.size() == 2 && ingested == 3 && validated == 2 ? 0 : 1;
}

}  // namespace

int main() {
  const std::string file = "join_workflow.db";
  const int code = run(file);
  for (const auto* suffix : {"", "-wal", "-shm", "-lock"}) std::filesystem::remove(file + suffix);
  return code;
}
