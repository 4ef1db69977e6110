#include <algorithm>
#include <array>
#include <iostream>

#include "cli/ask_each.hpp"
#include "cli/unhandled.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;

constexpr int joins_counted = 1'000;
/// The time limit for each database of a group.
constexpr std::chrono::milliseconds status_limit{10'000};

constexpr std::array counted{&QueueCounts::ready,       &QueueCounts::scheduled,
                             &QueueCounts::in_progress, &QueueCounts::done,
                             &QueueCounts::failed,      &QueueCounts::paused};

struct QueueState {
  std::string name;
  QueueCounts counts{};
  std::vector<PausedTopic> paused_topics{};
  std::array<bool, counted.size()> capped{};  ///< Counting stopped at counted_up_to.
};

struct State {
  std::vector<QueueState> queues;
  std::size_t jobs = 0;
  std::size_t enabled_jobs = 0;
  std::size_t pending_joins = 0;  ///< Up to joins_counted.
  bool joins_capped = false;
  std::vector<UnhandledTopic> unhandled_topics{};
};

State state_of(Platform& platform) {
  State state;
  const auto add = [&](const std::string& name, WorkQueue& queue) {
    auto& added = state.queues.emplace_back(
        QueueState{.name = name, .counts = queue.counts(), .paused_topics = queue.paused_topics()});
    for (std::size_t i = 0; i < counted.size(); ++i)
      added.capped[i] = added.counts.*counted[i] >= added.counts.counted_up_to;
  };
  add("outbox", platform.outbox());
  add("inbox", platform.inbox().queue());
  add("timers", platform.timers().queue());
  const auto jobs = platform.jobs().list();
  state.jobs = jobs.size();
  state.enabled_jobs = static_cast<std::size_t>(std::ranges::count_if(jobs, &Job::enabled));
  state.pending_joins =
      platform.joins().list({.status = JoinStatus::pending}, {.size = joins_counted}).size();
  state.joins_capped = state.pending_joins >= joins_counted;
  state.unhandled_topics = platform.instances().unhandled_topics();
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

using Texts = std::vector<std::string>;

Texts queue_row(const QueueState& queue) {
  Texts row{queue.name};
  for (std::size_t i = 0; i < counted.size(); ++i)
    row.push_back(std::to_string(queue.counts.*counted[i]) + (queue.capped[i] ? "+" : ""));
  const auto oldest = oldest_due_ms(queue.counts);
  row.push_back(oldest ? std::to_string(*oldest) + " ms" : "-");
  return row;
}

const Texts queue_headings{"QUEUE", "READY",  "SCHEDULED", "IN PROGRESS",
                           "DONE",  "FAILED", "PAUSED",    "OLDEST DUE"};
const Texts other_headings{"JOBS", "ENABLED", "PENDING JOINS"};
const Texts paused_headings{"PAUSED TOPIC", "SINCE", "QUEUE"};

/// `cells` after the key of their database.
Texts with_key(const std::string& key, Texts cells) {
  cells.insert(cells.begin(), key);
  return cells;
}

Texts other_row(const State& state) {
  return {std::to_string(state.jobs), std::to_string(state.enabled_jobs),
          std::to_string(state.pending_joins) + (state.joins_capped ? "+" : "")};
}

std::vector<Texts> paused_rows(const std::vector<QueueState>& queues) {
  std::vector<Texts> rows;
  for (const auto& queue : queues) {
    for (const auto& each : queue.paused_topics)
      rows.push_back({each.topic, to_string(each.since), queue.name});
  }
  return rows;
}

ordered_json state_json(const State& state) {
  ordered_json answer;
  for (const auto& queue : state.queues) answer[queue.name] = queue_json(queue);
  answer["jobs"] = {{"total", state.jobs}, {"enabled", state.enabled_jobs}};
  answer["joins"] = {{"pending", state.pending_joins}, {"counted_up_to", joins_counted}};
  answer["unhandled_topics"] = json::to_json_array(state.unhandled_topics);
  return answer;
}

// --- one database

void status(const Globals& globals) {
  auto platform = globals.open();
  const auto state = state_of(platform);
  if (globals.json) {
    ordered_json answer{{"database", platform.name()}, {"schema", globals.schema}};
    answer.update(state_json(state));
    std::cout << answer.dump(2) << '\n';
    return;
  }
  std::cout << platform.name() << " schema " << globals.schema << "\n\n";
  std::vector<Texts> rows;
  for (const auto& each : state.queues) rows.push_back(queue_row(each));
  print_table(queue_headings, rows);
  std::cout << '\n';
  print_table(other_headings, {other_row(state)});
  const auto print_more = [](const Texts& headings, const std::vector<Texts>& more) {
    if (more.empty()) return;
    std::cout << '\n';
    print_table(headings, more);
  };
  print_more(paused_headings, paused_rows(state.queues));
  print_more(unhandled_headings, unhandled_rows(state.unhandled_topics));
}

// --- a group

using StateOfDatabase = DatabaseAnswer<State>;

void add_counts(QueueState& total, const QueueState& queue) {
  for (std::size_t i = 0; i < counted.size(); ++i) {
    total.counts.*counted[i] += queue.counts.*counted[i];
    total.capped[i] = total.capped[i] || queue.capped[i];
  }
  const auto& oldest = queue.counts.oldest_due;
  if (oldest)
    total.counts.oldest_due = std::max(total.counts.oldest_due.value_or(*oldest), *oldest);
}

State total_of(const std::vector<StateOfDatabase>& answers) {
  State total;
  for (const auto* name : {"outbox", "inbox", "timers"}) total.queues.push_back({.name = name});
  for (const auto& each : answers) {
    if (!each.answer) continue;
    for (std::size_t i = 0; i < total.queues.size(); ++i)
      add_counts(total.queues[i], each.answer->queues[i]);
    total.jobs += each.answer->jobs;
    total.enabled_jobs += each.answer->enabled_jobs;
    total.pending_joins += each.answer->pending_joins;
    total.joins_capped = total.joins_capped || each.answer->joins_capped;
  }
  return total;
}

void print_group(const std::vector<StateOfDatabase>& answers) {
  const auto total = total_of(answers);
  std::vector<Texts> queues;
  std::vector<Texts> others;
  std::vector<Texts> paused;
  std::vector<Texts> unhandled;
  const auto add = [&](const std::string& key, const State& state) {
    for (const auto& each : state.queues) queues.push_back(with_key(key, queue_row(each)));
    others.push_back(with_key(key, other_row(state)));
    for (const auto& each : paused_rows(state.queues)) paused.push_back(with_key(key, each));
    for (const auto& each : unhandled_rows(state.unhandled_topics))
      unhandled.push_back(with_key(key, each));
  };
  for (const auto& each : answers) {
    if (each.answer) add(each.key, *each.answer);
  }
  if (others.empty()) return;
  add("(total)", total);
  print_table(with_key("DATABASE", queue_headings), queues);
  std::cout << '\n';
  print_table(with_key("DATABASE", other_headings), others);
  std::cout << '\n';
  const auto print_more = [](const Texts& headings, const std::vector<Texts>& more) {
    if (more.empty()) return;
    print_table(with_key("DATABASE", headings), more);
    std::cout << '\n';
  };
  print_more(paused_headings, paused);
  print_more(unhandled_headings, unhandled);
}

ordered_json totals_json(const State& total) {
  auto answer = state_json(total);
  for (const auto& queue : total.queues) {
    answer[queue.name].erase("paused_topics");
    answer[queue.name].erase("counted_up_to");
  }
  answer["joins"].erase("counted_up_to");
  answer.erase("unhandled_topics");
  return answer;
}

void status_of_group(const Globals& globals) {
  const auto answers = ask_each<State>(globals, state_of, status_limit);
  const auto failed = static_cast<std::size_t>(
      std::ranges::count_if(answers, [](const auto& each) { return each.failure.has_value(); }));
  if (globals.json) {
    auto answer = group_json<State>(answers, state_json);
    answer["totals"] = totals_json(total_of(answers));
    std::cout << answer.dump(2) << '\n';
  } else {
    print_group(answers);
    std::cout << count_of_databases(answers.size()) << ", " << failed << " failed\n";
  }
  finish_group(globals, answers);
}

}  // namespace

void add_status(CLI::App& app, Globals& globals) {
  auto& command = add_command(
      app, globals, "status", "Count the messages of every queue by state, jobs and pending joins",
      [&globals] { globals.has_group() ? status_of_group(globals) : status(globals); });
  allow_group(command, globals);
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
