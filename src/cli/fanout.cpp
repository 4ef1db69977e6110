#include <algorithm>
#include <iostream>

#include "cli/group_list.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json;
using json::to_json_array;
using nlohmann::ordered_json;

constexpr SecondsRange every_range{std::chrono::milliseconds{1}, std::chrono::hours{24 * 3650}};
constexpr SecondsRange fanout_jitter_range{std::chrono::milliseconds{0},
                                           std::chrono::hours{24 * 3650}};
constexpr SecondsRange cursor_age_range = fanout_jitter_range;

struct FanoutArguments {
  std::string topic;
  std::string work_key;
  double every = 0;
  double jitter = 0;
  double older_than = 0;
  bool has_every = false;
  bool has_jitter = false;
  bool reset = false;
  std::vector<std::string> start_after;
  int limit = 100;

  [[nodiscard]] std::optional<std::string> key() const {
    return work_key.empty() ? std::nullopt : std::optional{work_key};
  }
};

[[noreturn]] void no_such_fanout(const FanoutArguments& arguments) {
  throw std::runtime_error("there is no fan-out " + arguments.topic +
                           (arguments.work_key.empty() ? "" : " " + arguments.work_key) +
                           "; dovetail fanout list shows all");
}

std::string shown_duration(std::chrono::milliseconds time) {
  auto text = std::to_string(time.count() / 1'000);
  const auto rest = std::to_string(1'000 + time.count() % 1'000).substr(1);
  return rest == "000" ? text + " s" : text + "." + rest + " s";
}

// --- list

struct ListedFanout {
  FanoutPolicy policy;
  std::optional<Job> job;
};
using ListedFanouts = std::vector<ListedFanout>;

const TableCells fanout_headings{"TOPIC",  "WORK KEY", "EVERY",      "JITTER",
                                 "SET BY", "CRON",     "NEXT ROUND", "LAST ROUND"};

ListedFanouts fanouts_of(Platform& platform) {
  ListedFanouts listed;
  for (auto& each : platform.fanout().policies()) {
    auto job = each.job ? platform.jobs().find(*each.job) : std::nullopt;
    listed.push_back({std::move(each), std::move(job)});
  }
  return listed;
}

std::vector<TableCells> fanout_rows(const ListedFanouts& fanouts) {
  std::vector<TableCells> rows;
  rows.reserve(fanouts.size());
  for (const auto& [policy, job] : fanouts) {
    rows.push_back(
        {policy.topic, policy.work_key.value_or("(all)"), shown_duration(policy.every),
         shown_duration(policy.jitter), policy.set_by_operator ? "operator" : "code",
         job ? job->cron : "-",
         job && !job->enabled ? "disabled" : or_dash(job ? job->next_due_at : std::nullopt),
         job && job->last_run_status ? std::string{to_string(*job->last_run_status)} : "-"});
  }
  return rows;
}

ordered_json fanouts_json(const ListedFanouts& fanouts) {
  auto list = ordered_json::array();
  for (const auto& each : fanouts) list.push_back(to_json(each.policy));
  return {{"fanouts", std::move(list)}};
}

void list_fanouts(const Globals& globals) {
  if (globals.has_group()) {
    return finish_group(globals, list_of_group<ListedFanouts>(
                                     globals, fanouts_of,
                                     {fanout_headings, fanout_rows, fanouts_json, "no fan-outs"}));
  }
  auto platform = globals.open();
  const auto fanouts = fanouts_of(platform);
  if (globals.json) {
    std::cout << fanouts_json(fanouts).dump(2) << '\n';
  } else if (fanouts.empty()) {
    std::cout << "no fan-outs\n";
  } else {
    print_table(fanout_headings, fanout_rows(fanouts));
  }
}

// --- run

using RoundRuns = std::vector<JobRunId>;

ordered_json round_runs_json(const RoundRuns& runs) {
  auto ids = ordered_json::array();
  for (const auto& run : runs) ids.push_back(run.to_string());
  return {{"run_ids", std::move(ids)}};
}

std::vector<TableCells> round_run_rows(const RoundRuns& runs) {
  std::vector<TableCells> rows;
  for (const auto& run : runs) rows.push_back({run.to_string()});
  return rows;
}

void run_fanout(const Globals& globals, const FanoutArguments& arguments) {
  const auto run = [arguments](Platform& platform) {
    return platform.fanout().run_now(arguments.topic, arguments.key());
  };
  if (globals.has_group()) {
    const auto answers = list_of_group<RoundRuns>(
        globals, run, {{"RUN"}, round_run_rows, round_runs_json, "no database has this fan-out"});
    finish_group(globals, answers);
    if (std::ranges::all_of(answers, [](const auto& each) { return each.answer->empty(); }))
      no_such_fanout(arguments);
    return;
  }
  auto platform = globals.open();
  const auto runs = run(platform);
  if (runs.empty()) no_such_fanout(arguments);
  if (globals.json) {
    std::cout << round_runs_json(runs).dump() << '\n';
    return;
  }
  for (const auto& each : runs) std::cout << each.to_string() << '\n';
}

// --- cursors

using Cursors = std::vector<FanoutCursor>;

const TableCells cursor_headings{"WORK KEY",       "SHARD",    "STATUS",
                                 "LAST COMPLETED", "ENQUEUED", "ERROR"};

std::vector<TableCells> cursor_rows(const Cursors& cursors) {
  std::vector<TableCells> rows;
  rows.reserve(cursors.size());
  for (const auto& each : cursors) {
    rows.push_back({each.work_key, each.shard_key, std::string{to_string(each.status)},
                    or_dash(each.last_completed_at), or_dash(each.enqueued_at),
                    shortened(each.last_error.value_or("-"), shown_error_characters)});
  }
  return rows;
}

ordered_json cursors_json(const Cursors& cursors) {
  return {{"cursors", to_json_array(cursors)}};
}

void hint_at_more(const Cursors& cursors, const FanoutArguments& arguments,
                  const std::string& only = {}) {
  if (cursors.size() < static_cast<std::size_t>(arguments.limit)) return;
  std::cerr << "there may be more: " << only << "--start-after '" << cursors.back().work_key
            << "' '" << cursors.back().shard_key << "'\n";
}

void list_group_cursors(const Globals& globals, const FanoutArguments& arguments,
                        const FanoutCursorPage& page) {
  if (page.after_work_key && read_group(globals).good.size() != 1) {
    throw std::invalid_argument(
        "--start-after is a place in one database: name that database with --only KEY");
  }
  const auto answers = list_of_group<Cursors>(
      globals, [=](Platform& platform) { return platform.fanout().cursors(arguments.topic, page); },
      {cursor_headings, cursor_rows, cursors_json, "no cursors"});
  for (const auto& each : answers) {
    if (each.answer) hint_at_more(*each.answer, arguments, "--only '" + each.key + "' ");
  }
  finish_group(globals, answers);
}

void list_cursors(const Globals& globals, const FanoutArguments& arguments) {
  FanoutCursorPage page{.work_key = arguments.key(), .size = arguments.limit};
  if (!arguments.start_after.empty()) {
    page.after_work_key = arguments.start_after.at(0);
    page.after_shard_key = arguments.start_after.at(1);
  }
  if (globals.has_group()) return list_group_cursors(globals, arguments, page);
  auto platform = globals.open();
  const auto cursors = platform.fanout().cursors(arguments.topic, page);
  if (cursors.empty() && platform.fanout().policies(arguments.topic).empty())
    no_such_fanout(arguments);
  if (globals.json) {
    std::cout << cursors_json(cursors).dump(2) << '\n';
    return;
  }
  if (cursors.empty()) {
    std::cout << "no cursors\n";
    return;
  }
  print_table(cursor_headings, cursor_rows(cursors));
  hint_at_more(cursors, arguments);
}

// --- changes

/// Makes a change in the database, or in each database of the group. The change returns the number
/// of things that it changed. With `must_exist`, it is an error if that is zero everywhere.
void change_fanout(const Globals& globals, const FanoutArguments& arguments,
                   const std::string& word, bool must_exist,
                   const std::function<std::size_t(Fanout&)>& change) {
  const auto apply = [change](Platform& platform) { return change(platform.fanout()); };
  if (globals.has_group()) {
    const auto result = change_group(globals, word, apply);
    finish_group(globals, result.answers);
    if (must_exist && result.total == 0) no_such_fanout(arguments);
    return;
  }
  auto platform = globals.open();
  const auto changed = apply(platform);
  if (must_exist && changed == 0) no_such_fanout(arguments);
  print_effect(globals, {.word = word, .count = changed});
}

void change_cadence(const Globals& globals, const FanoutArguments& arguments) {
  if (arguments.reset == arguments.has_every)
    throw std::invalid_argument("give either --every or --reset");
  if (arguments.reset && arguments.has_jitter)
    throw std::invalid_argument("--jitter needs --every");
  std::optional<std::chrono::milliseconds> every;
  std::optional<std::chrono::milliseconds> jitter;
  if (arguments.has_every) every = parse_seconds("--every", arguments.every, every_range);
  if (arguments.has_jitter)
    jitter = parse_seconds("--jitter", arguments.jitter, fanout_jitter_range);
  change_fanout(globals, arguments, every ? "set" : "reset", true, [=](Fanout& fanout) {
    const bool found = every ? fanout.set_cadence(arguments.topic, arguments.key(), *every, jitter)
                             : fanout.reset_cadence(arguments.topic, arguments.key());
    return std::size_t{found ? 1U : 0U};
  });
}

void remove_fanout(const Globals& globals, const FanoutArguments& arguments) {
  change_fanout(globals, arguments, "removed", true, [=](Fanout& fanout) {
    return std::size_t{fanout.remove(arguments.topic, arguments.key()) ? 1U : 0U};
  });
}

void purge_cursors(const Globals& globals, const FanoutArguments& arguments) {
  const auto age = parse_seconds("--older-than", arguments.older_than, cursor_age_range);
  change_fanout(globals, arguments, "purged", false, [=](Fanout& fanout) {
    return fanout.purge_cursors(arguments.topic, arguments.key(), age);
  });
}

/// Adds a command on one topic, and on one or all of its work keys.
CLI::App& add_fanout_command(CLI::App& group, Globals& globals, const std::string& name,
                             const std::string& description,
                             void (*run)(const Globals&, const FanoutArguments&),
                             const std::shared_ptr<FanoutArguments>& arguments,
                             const std::string& key_description) {
  auto& command = add_command(group, globals, name, description,
                              [&globals, arguments, run] { run(globals, *arguments); });
  command.add_option("TOPIC", arguments->topic, "The topic of the fan-out, such as etl")
      ->required();
  command.add_option("KEY", arguments->work_key, key_description);
  command.add_flag("--json", globals.json, "Answer in JSON");
  allow_group(command, globals);
  return command;
}

void add_cadence(CLI::App& group, Globals& globals) {
  const auto arguments = std::make_shared<FanoutArguments>();
  auto& command = add_fanout_command(
      group, globals, "cadence", "Change how often slices are due; a redeploy does not undo it",
      &change_cadence, arguments,
      "The work key; absent: the cadence of all keys without their own");
  command.add_option_function<double>(
      "--every",
      [arguments](double seconds) {
        arguments->every = seconds;
        arguments->has_every = true;
      },
      "Seconds between the message of a completed slice and its next message");
  command.add_option_function<double>(
      "--jitter",
      [arguments](double seconds) {
        arguments->jitter = seconds;
        arguments->has_jitter = true;
      },
      "Adds a delay of up to this many seconds, fixed for each slice; absent: unchanged");
  command.add_flag("--reset", arguments->reset, "Return to the cadence that the code registers");
}

}  // namespace

void add_fanout(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "fanout", "Work for many shards on a schedule");
  auto& listing = add_command(group, globals, "list", "List all fan-outs with their cadences",
                              [&globals] { list_fanouts(globals); });
  listing.add_flag("--json", globals.json, "Answer in JSON");
  allow_group(listing, globals);
  auto& running = add_fanout_command(
      group, globals, "run", "Run a round now, in addition to its schedule; prints the run ids",
      &run_fanout, std::make_shared<FanoutArguments>(), "The work key; absent: all of the topic");
  running.footer("A started process of your service that has added the fan-out runs the round.");
  const auto shown = std::make_shared<FanoutArguments>();
  auto& cursors =
      add_fanout_command(group, globals, "cursors", "List the progress of the shards of a topic",
                         &list_cursors, shown, "Only this work key");
  cursors.add_option("--limit", shown->limit, "Maximum number of rows")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  cursors
      .add_option("--start-after", shown->start_after,
                  "The work key and the shard key of the last row of the previous page")
      ->expected(2);
  add_cadence(group, globals);
  const auto purged = std::make_shared<FanoutArguments>();
  add_fanout_command(group, globals, "purge",
                     "Delete the cursors of shards that no planner names any more", &purge_cursors,
                     purged, "Only this work key")
      .add_option("--older-than", purged->older_than,
                  "Seconds for which a shard was due, and no round has enqueued it")
      ->required();
  add_fanout_command(group, globals, "remove",
                     "Remove a fan-out that no service adds any more; its cursors stay",
                     &remove_fanout, std::make_shared<FanoutArguments>(),
                     "The work key; absent: the registration for all keys");
}

}  // namespace dovetail::cli
