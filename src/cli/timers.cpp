#include <iostream>

#include "cli/group_list.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json_array;
using nlohmann::ordered_json;

constexpr SecondsRange in_range{std::chrono::milliseconds{0}, std::chrono::hours{24 * 3650}};

struct TimerArguments {
  std::string topic;
  std::string payload;
  std::string due_at;
  double in = 0;
  std::string correlation_id;
  std::string unique_key;
  std::vector<std::string> ids;
  int limit = 100;
  std::string start_after_time;
  std::string start_after_id;
};

void schedule(const Globals& globals, const TimerArguments& arguments, bool has_delay) {
  if (has_delay != arguments.due_at.empty())
    throw std::invalid_argument("give either --due-at or --in");
  TimerRequest request{.topic = arguments.topic, .payload = arguments.payload};
  if (!arguments.correlation_id.empty()) request.correlation_id = arguments.correlation_id;
  if (!arguments.unique_key.empty()) request.unique_key = arguments.unique_key;
  if (has_delay) {
    request.delay = parse_seconds("--in", arguments.in, in_range);
  } else {
    request.due_at = parse_time("--due-at", arguments.due_at);
  }
  auto platform = globals.open();
  const auto answer = platform.timers().schedule(request);
  if (globals.json) {
    std::cout << ordered_json{{"timer_id", answer.to_string()}, {"stored", answer.stored()}}.dump()
              << '\n';
    return;
  }
  std::cout << answer.to_string() << '\n';
  if (!answer.stored()) std::cerr << "already there: nothing was stored\n";
}

void cancel_timers(const Globals& globals, const TimerArguments& arguments) {
  std::vector<TimerId> ids;
  ids.reserve(arguments.ids.size());
  for (const auto& text : arguments.ids) ids.push_back(parse_id<TimerId>("ID", text));
  auto platform = globals.open();
  std::size_t count = 0;
  for (const auto& id : ids) count += platform.timers().cancel(id) ? 1 : 0;
  print_effect(globals, {.word = "cancelled",
                         .count = count,
                         .asked = ids.size(),
                         .why_not = "there is no such timer, or it has fired"});
}

using ListedTimers = std::vector<Timer>;

std::vector<TableCells> timer_rows(const ListedTimers& timers) {
  std::vector<TableCells> rows;
  rows.reserve(timers.size());
  for (const auto& timer : timers) {
    rows.push_back({timer.id.to_string(), timer.topic, to_string(timer.due_at),
                    std::string{to_string(timer.status)}, timer.unique_key.value_or("-")});
  }
  return rows;
}

void list_timers(const Globals& globals, const TimerArguments& arguments) {
  TimerPage page{.size = arguments.limit};
  if (arguments.start_after_time.empty() != arguments.start_after_id.empty()) {
    throw std::invalid_argument("--start-after-time and --start-after-id go together");
  }
  if (!arguments.start_after_time.empty()) {
    page.after_time = parse_time("--start-after-time", arguments.start_after_time);
    page.after_id = parse_id<TimerId>("--start-after-id", arguments.start_after_id);
  }
  require_one_database(globals, !arguments.start_after_id.empty());
  const auto topic = arguments.topic.empty() ? std::nullopt : std::optional{arguments.topic};
  const auto form = [](const ListedTimers& timers) {
    return ordered_json{{"timers", to_json_array(timers)}};
  };
  const auto timers = print_list<ListedTimers>(
      globals, [&](Platform& platform) { return platform.timers().list(topic, page); },
      {{"TIMER", "TOPIC", "DUE AT", "STATUS", "UNIQUE KEY"}, timer_rows, form, "no timers"});
  if (timers && !globals.json && timers->size() >= static_cast<std::size_t>(page.size)) {
    std::cerr << "there may be more: --start-after-time " << or_dash(timers->back().next_attempt_at)
              << " --start-after-id " << timers->back().id.to_string() << '\n';
  }
}

void add_timer_schedule(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<TimerArguments>();
  auto delay = std::make_shared<CLI::Option*>(nullptr);
  auto& command = add_command(
      group, globals, "schedule", "Store a timer; prints its id, which becomes the message's id",
      [&globals, arguments, delay] { schedule(globals, *arguments, (*delay)->count() > 0); });
  command.add_option("TOPIC", arguments->topic, "The topic of its message")
      ->required()
      ->check(topic_rule());
  command.add_option("PAYLOAD", arguments->payload, "The message's text; empty if absent");
  command.add_option("--due-at", arguments->due_at, "The due time, such as 2026-01-31T09:30:00Z")
      ->check(time_rule());
  *delay =
      command.add_option("--in", arguments->in, "Seconds until it is due, by the database's clock");
  command.add_option("--correlation-id", arguments->correlation_id, "Up to 255 characters");
  command.add_option("--unique-key", arguments->unique_key,
                     "Store nothing while a timer with this key has not fired");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace

void add_timers(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "timers", "Messages that become due once");
  add_timer_schedule(group, globals);
  auto cancelled = std::make_shared<TimerArguments>();
  auto& cancelling = add_command(group, globals, "cancel", "Remove timers that have not fired",
                                 [&globals, cancelled] { cancel_timers(globals, *cancelled); });
  cancelling.add_option("ID", cancelled->ids, "The timers' UUIDs")->required();
  cancelling.add_flag("--json", globals.json, "Answer in JSON");
  auto listed = std::make_shared<TimerArguments>();
  auto& listing =
      add_command(group, globals, "list", "List timers that have not fired, the next one first",
                  [&globals, listed] { list_timers(globals, *listed); });
  allow_group(listing, globals);
  listing.add_option("--topic", listed->topic, "Only this topic")->check(topic_rule());
  listing.add_option("--limit", listed->limit, "Maximum number of rows")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  listing
      .add_option("--start-after-time", listed->start_after_time,
                  "The due time of the last row of the previous page")
      ->check(time_rule());
  listing.add_option("--start-after-id", listed->start_after_id, "The id of that row");
  listing.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
