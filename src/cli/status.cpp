#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/cli.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;

std::optional<std::int64_t> oldest_due_ms(const OutboxCounts& counts) {
  if (!counts.oldest_due) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(*counts.oldest_due).count();
}

ordered_json outbox_json(const OutboxCounts& counts, const std::vector<PausedTopic>& paused_topics) {
  const auto oldest = oldest_due_ms(counts);
  auto topics = ordered_json::array();
  for (const auto& each : paused_topics) {
    topics.push_back({{"topic", each.topic}, {"since", to_string(each.since)}});
  }
  return {{"ready", counts.ready},
          {"scheduled", counts.scheduled},
          {"in_progress", counts.in_progress},
          {"done", counts.done},
          {"failed", counts.failed},
          {"paused", counts.paused},
          {"counted_up_to", counts.counted_up_to},
          {"oldest_due_ms", oldest ? ordered_json(*oldest) : ordered_json()},
          {"paused_topics", topics}};
}

void print_counts(const OutboxCounts& counts) {
  const auto shown = [&](std::int64_t count) {
    return std::to_string(count) + (count >= counts.counted_up_to ? "+" : "");
  };
  const auto oldest = oldest_due_ms(counts);
  print_table(
      {"QUEUE", "READY", "SCHEDULED", "IN PROGRESS", "DONE", "FAILED", "PAUSED", "OLDEST DUE"},
      {{"outbox", shown(counts.ready), shown(counts.scheduled), shown(counts.in_progress), shown(counts.done),
        shown(counts.failed), shown(counts.paused), oldest ? std::to_string(*oldest) + " ms" : "-"}});
}

void print_paused(const std::vector<PausedTopic>& paused_topics) {
  if (paused_topics.empty()) return;
  std::vector<std::vector<std::string>> rows;
  rows.reserve(paused_topics.size());
  for (const auto& each : paused_topics) rows.push_back({each.topic, to_string(each.since)});
  std::cout << '\n';
  print_table({"PAUSED TOPIC", "SINCE"}, rows);
}

void status(const Globals& globals) {
  auto platform = globals.open();
  const auto counts = platform.outbox().counts();
  const auto paused_topics = platform.outbox().paused_topics();
  if (globals.json) {
    const ordered_json answer{{"database", platform.name()},
                              {"schema", globals.schema},
                              {"outbox", outbox_json(counts, paused_topics)}};
    std::cout << answer.dump(2) << '\n';
    return;
  }
  std::cout << platform.name() << " schema " << globals.schema << "\n\n";
  print_counts(counts);
  print_paused(paused_topics);
}

}  // namespace

void add_status(CLI::App& app, Globals& globals) {
  auto& command = add_command(app, globals, "status", "How many messages are in which state",
                              [&globals] { status(globals); });
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
