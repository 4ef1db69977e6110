#include <iostream>

#include "cli/cli.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

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

void list_fanouts(const Globals& globals) {
  auto platform = globals.open();
  const auto policies = platform.fanout().policies();
  if (globals.json) {
    std::cout << ordered_json{{"fanouts", to_json_array(policies)}}.dump(2) << '\n';
    return;
  }
  if (policies.empty()) {
    std::cout << "no fan-outs\n";
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(policies.size());
  for (const auto& each : policies) {
    const auto job = each.job ? platform.jobs().get(*each.job) : std::nullopt;
    rows.push_back(
        {each.topic, each.work_key.value_or("(all)"), shown_duration(each.every),
         shown_duration(each.jitter), each.set_by_operator ? "operator" : "code",
         job ? job->cron : "-",
         job && !job->enabled ? "disabled" : or_dash(job ? job->next_due_at : std::nullopt),
         job && job->last_run_status ? std::string{to_string(*job->last_run_status)} : "-"});
  }
  print_table(
      {"TOPIC", "WORK KEY", "EVERY", "JITTER", "SET BY", "CRON", "NEXT ROUND", "LAST ROUND"}, rows);
}

void run_fanout(const Globals& globals, const FanoutArguments& arguments) {
  auto platform = globals.open();
  const auto runs = platform.fanout().run_now(arguments.topic, arguments.key());
  if (runs.empty()) no_such_fanout(arguments);
  if (globals.json) {
    auto ids = ordered_json::array();
    for (const auto& run : runs) ids.push_back(run.to_string());
    std::cout << ordered_json{{"run_ids", std::move(ids)}}.dump() << '\n';
    return;
  }
  for (const auto& run : runs) std::cout << run.to_string() << '\n';
}

void list_cursors(const Globals& globals, const FanoutArguments& arguments) {
  FanoutCursorPage page{.work_key = arguments.key(), .size = arguments.limit};
  if (!arguments.start_after.empty()) {
    page.after_work_key = arguments.start_after.at(0);
    page.after_shard_key = arguments.start_after.at(1);
  }
  auto platform = globals.open();
  const auto cursors = platform.fanout().cursors(arguments.topic, page);
  if (cursors.empty() && platform.fanout().policies(arguments.topic).empty())
    no_such_fanout(arguments);
  if (globals.json) {
    std::cout << ordered_json{{"cursors", to_json_array(cursors)}}.dump(2) << '\n';
    return;
  }
  if (cursors.empty()) {
    std::cout << "no cursors\n";
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(cursors.size());
  for (const auto& each : cursors) {
    rows.push_back({each.work_key, each.shard_key, std::string{to_string(each.status)},
                    or_dash(each.last_completed_at), or_dash(each.enqueued_at),
                    shortened(each.last_error.value_or("-"), shown_error_characters)});
  }
  print_table({"WORK KEY", "SHARD", "STATUS", "LAST COMPLETED", "ENQUEUED", "ERROR"}, rows);
  if (cursors.size() == static_cast<std::size_t>(arguments.limit)) {
    std::cerr << "there may be more: --start-after '" << cursors.back().work_key << "' '"
              << cursors.back().shard_key << "'\n";
  }
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
  auto platform = globals.open();
  auto& fanout = platform.fanout();
  const bool found = every ? fanout.set_cadence(arguments.topic, arguments.key(), *every, jitter)
                           : fanout.reset_cadence(arguments.topic, arguments.key());
  if (!found) no_such_fanout(arguments);
  print_effect(globals, {.word = every ? "set" : "reset", .count = 1});
}

void delete_fanout(const Globals& globals, const FanoutArguments& arguments) {
  auto platform = globals.open();
  if (!platform.fanout().remove(arguments.topic, arguments.key())) no_such_fanout(arguments);
  print_effect(globals, {.word = "deleted", .count = 1});
}

void purge_cursors(const Globals& globals, const FanoutArguments& arguments) {
  const auto age = parse_seconds("--older-than", arguments.older_than, cursor_age_range);
  auto platform = globals.open();
  const auto purged = platform.fanout().purge_cursors(arguments.topic, arguments.key(), age);
  print_effect(globals, {.word = "purged", .count = purged});
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
      "Seconds between a completion of a slice and its next message");
  command.add_option_function<double>(
      "--jitter",
      [arguments](double seconds) {
        arguments->jitter = seconds;
        arguments->has_jitter = true;
      },
      "Each slice waits longer by a fixed part of this many seconds; absent: unchanged");
  command.add_flag("--reset", arguments->reset, "Return to the cadence that the code registers");
}

}  // namespace

void add_fanout(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "fanout", "Work for many shards on a schedule");
  auto& listing = add_command(group, globals, "list", "List all fan-outs with their cadences",
                              [&globals] { list_fanouts(globals); });
  listing.add_flag("--json", globals.json, "Answer in JSON");
  auto& running = add_fanout_command(
      group, globals, "run", "Run a round now, beside the schedule; prints the ids of the runs",
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
  add_fanout_command(group, globals, "delete",
                     "Delete a fan-out that no service adds any more; its cursors stay",
                     &delete_fanout, std::make_shared<FanoutArguments>(),
                     "The work key; absent: the registration for all keys");
}

}  // namespace dovetail::cli
