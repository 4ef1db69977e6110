// Partial failure: one of the five sections of a report fails. The report is assembled from the
// other four.
//
//   join_report
#include <dovetail/dovetail.hpp>

#include <atomic>
#include <filesystem>
#include <iostream>

namespace {

int run(const std::string& file) {
  auto platform = dovetail::Platform::open("sqlite:" + file, {.deploy_schema = true});
  platform.on("report.section", [](const dovetail::Message& section, dovetail::HandlerContext&) {
    if (section.payload == "4") throw dovetail::PermanentFailure("no data for section 4");
  });

  dovetail::JoinId join;
  std::atomic<int> available{-1};
  platform.on("report.assemble", [&](const dovetail::Message& report, dovetail::HandlerContext&) {
    int completed = 0;
    for (const auto& member : platform.joins().members(join)) {
      if (member.status == dovetail::StepStatus::completed) ++completed;
    }
    std::cout << "assembling " << report.payload << " from " << completed << " of 5 sections\n";
    available = completed;
    available.notify_one();
  });

  // One call stores the steps, their join and the continuation, in one transaction.
  dovetail::FanOut fan{.grouping_key = "report-456",
                       .wait = {{.fail_if_any_step_failed = false,  // continue when all have ended
                                 .on_complete_topic = "report.assemble",
                                 .on_complete_payload = "RPT-456"}}};
  for (int section = 1; section <= 5; ++section) {
    fan.steps.push_back({.topic = "report.section", .payload = std::to_string(section)});
  }
  join = platform.joins().fan_out(fan).join;

  platform.start();
  available.wait(-1);
  platform.stop();
  const auto ended = platform.joins().find(join);
  std::cout << "the join is " << dovetail::to_string(ended->status) << ": "
            << ended->completed_steps << " completed, " << ended->failed_steps << " failed\n";
  return available == 4 && ended->failed_steps == 1 ? 0 : 1;
}

}  // namespace

int main() {
  const std::string file = "join_report.db";
  const int code = run(file);
  for (const auto* suffix : {"", "-wal", "-shm", "-lock"}) std::filesystem::remove(file + suffix);
  return code;
}
