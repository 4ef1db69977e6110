#include <date/date.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/cli.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;

struct CronArguments {
  std::string expression;
  std::string zone = "UTC";
  std::string from;
  int count = 5;
};

std::string shown_offset(std::chrono::seconds offset) {
  const auto total = std::abs(offset.count());
  const auto two = [](std::int64_t number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
  };
  auto text = (offset.count() < 0 ? "-" : "+") + two(total / 3'600) + ":" + two(total / 60 % 60);
  if (total % 60 != 0) text += ":" + two(total % 60);
  return text;
}

/// Such as `Mon 2026-03-30 09:00:00 +02:00`.
std::string shown_local(const TimeZone& zone, WallTime time) {
  const date::local_seconds local{zone.to_local(time).time_since_epoch()};
  return date::format("%a %F %T ", local) + shown_offset(zone.period_at(time).offset);
}

void explain(const Globals& globals, const CronArguments& arguments) {
  const auto expression = CronExpression::parse(arguments.expression);
  const auto zone = TimeZone::find(arguments.zone);
  auto time = parse_time_if_given("--from", arguments.from).value_or(system_clock()->wall());
  std::vector<WallTime> times;
  times.reserve(static_cast<std::size_t>(arguments.count));
  for (int i = 0; i < arguments.count; ++i) {
    const auto next = next_occurrence(expression, zone, time);
    if (!next) break;
    times.push_back(*next);
    time = *next;
  }
  if (globals.json) {
    ordered_json answer{{"expression", expression.text()},
                        {"description", expression.describe()},
                        {"time_zone", zone.name()},
                        {"next", ordered_json::array()}};
    for (const auto& each : times) {
      answer["next"].push_back({{"utc", to_string(each)}, {"local", shown_local(zone, each)}});
    }
    std::cout << answer.dump(2) << '\n';
    return;
  }
  std::cout << expression.describe() << " (" << zone.name() << ")\n";
  std::vector<std::vector<std::string>> rows;
  rows.reserve(times.size());
  for (const auto& each : times) rows.push_back({shown_local(zone, each), to_string(each)});
  std::cout << '\n';
  print_table({"LOCAL", "UTC"}, rows);
}

}  // namespace

void add_cron(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "cron", "Cron expressions");
  auto arguments = std::make_shared<CronArguments>();
  auto& command = *group.add_subcommand(
      "explain", "Explain an expression, and list its next times; needs no database");
  command.callback([&globals, arguments] { explain(globals, *arguments); });
  command
      .add_option("EXPRESSION", arguments->expression,
                  "Five fields, six with seconds first, or a word such as @daily")
      ->required();
  command.add_option("--zone", arguments->zone, "An IANA time zone")->capture_default_str();
  command.add_option("--from", arguments->from, "List the times after this one; now if absent")
      ->check(time_rule());
  command.add_option("--count", arguments->count, "Number of times")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
