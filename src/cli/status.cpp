#include <algorithm>
#include <iostream>

#include "cli/cli.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;

constexpr int joins_counted = 1'000;

struct QueueState {
  std::string name;
  QueueCounts counts;
  std::vector<PausedTopic> paused_topics;
};

struct State {
  std::vector<QueueState> queues;
  std::size_t jobs = 0;
  std::size_t enabled_jobs = 0;
  std::size_t pending_joins = 0;  ///< Up to joins_counted.
};

State state_of(Platform& platform) {
  State state;
  const auto add = [&](const std::string& name, WorkQueue& queue) {
    state.queues.push_back({name, queue.counts(), queue.paused_topics()});
  };
  add("outbox", platform.outbox());
  add("inbox", platform.inbox().queue());
  add("timers", platform.timers().queue());
  const auto jobs = platform.jobs().list();
  state.jobs = jobs.size();
  state.enabled_jobs = static_cast<std::size_t>(std::ranges::count_if(jobs, &Job::enabled));
  state.pending_joins =
      platform.joins().list({.status = JoinStatus::pending}, {.size = joins_counted}).size();
  return state;
}

std::optional<std::int64_t> oldest_due_ms(const QueueCounts& counts) {
  if (!counts.oldest_due) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(*counts.oldest_due).count();
}

ordered_json queue_json(const QueueState& queue) {
  auto answer = json::to_json(queue.counts);
  answer["paused_topics"] = json::to_json_array(queue.paused_topics);
  return answer;
}

std::vector<std::string> queue_row(const QueueState& queue) {
  const auto& counts = queue.counts;
  const auto shown = [&](std::int64_t count) {
    return std::to_string(count) + (count >= counts.counted_up_to ? "+" : "");
  };
  const auto oldest = oldest_due_ms(counts);
  return {queue.name,
          shown(counts.ready),
          shown(counts.scheduled),
          shown(counts.in_progress),
          shown(counts.done),
          shown(counts.failed),
          shown(counts.paused),
          oldest ? std::to_string(*oldest) + " ms" : "-"};
}

void print_queues(const std::vector<QueueState>& queues) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(queues.size());
  for (const auto& each : queues) rows.push_back(queue_row(each));
  print_table(
      {"QUEUE", "READY", "SCHEDULED", "IN PROGRESS", "DONE", "FAILED", "PAUSED", "OLDEST DUE"},
      rows);
}

void print_paused(const std::vector<QueueState>& queues) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& queue : queues) {
    for (const auto& each : queue.paused_topics)
      rows.push_back({each.topic, to_string(each.since), queue.name});
  }
  if (rows.empty()) return;
  std::cout << '\n';
  print_table({"PAUSED TOPIC", "SINCE", "QUEUE"}, rows);
}

void print_state_as_json(const Globals& globals, const std::string& database, const State& state) {
  ordered_json answer{{"database", database}, {"schema", globals.schema}};
  for (const auto& queue : state.queues) answer[queue.name] = queue_json(queue);
  answer["jobs"] = {{"total", state.jobs}, {"enabled", state.enabled_jobs}};
  answer["joins"] = {{"pending", state.pending_joins}, {"counted_up_to", joins_counted}};
  std::cout << answer.dump(2) << '\n';
}

void status(const Globals& globals) {
  auto platform = globals.open();
  const auto state = state_of(platform);
  if (globals.json) return print_state_as_json(globals, platform.name(), state);
  std::cout << platform.name() << " schema " << globals.schema << "\n\n";
  print_queues(state.queues);
  std::cout << '\n';
  print_table(
      {"JOBS", "ENABLED", "PENDING JOINS"},
      {{std::to_string(state.jobs), std::to_string(state.enabled_jobs),
        std::to_string(state.pending_joins) + (state.pending_joins >= joins_counted ? "+" : "")}});
  print_paused(state.queues);
}

}  // namespace

void add_status(CLI::App& app, Globals& globals) {
  auto& command = add_command(app, globals, "status",
                              "Count the messages of every queue by state, jobs and pending joins",
                              [&globals] { status(globals); });
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
