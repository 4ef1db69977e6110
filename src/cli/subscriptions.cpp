#include <algorithm>
#include <array>
#include <iostream>

#include "cli/group_list.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json;
using json::to_json_array;
using nlohmann::ordered_json;

std::string subscription_state(const SubscriptionStatus& status) {
  if (status.paused_at) return "paused";
  if (status.stopped_at) return "stopped";
  if (status.attempts > 0) return "retrying";
  return status.held_parts > 0 ? "running" : "idle";
}

std::string lag_time_of(const SubscriptionStatus& status) {
  if (!status.lag_time) return "-";
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(*status.lag_time);
  return std::to_string(ms.count()) + " ms";
}

using ListedSubscriptions = std::vector<SubscriptionStatus>;

std::vector<TableCells> subscription_rows(const ListedSubscriptions& all) {
  std::vector<TableCells> rows;
  rows.reserve(all.size());
  for (const auto& each : all) {
    rows.push_back({each.name, subscription_state(each), std::to_string(each.position),
                    std::to_string(each.lag), lag_time_of(each),
                    std::to_string(each.held_parts) + "/" + std::to_string(each.parts),
                    std::to_string(each.parked),
                    shortened(each.last_error.value_or("-"), shown_error_characters)});
  }
  return rows;
}

void list_subscriptions(const Globals& globals) {
  const auto ask = [](Platform& platform) { return platform.events().subscriptions().list(); };
  const auto form = [](const ListedSubscriptions& all) {
    return ordered_json{{"subscriptions", to_json_array(all)}};
  };
  print_list<ListedSubscriptions>(globals, ask,
                                  {{"SUBSCRIPTION", "STATE", "POSITION", "LAG", "LAG TIME",
                                    "PARTS HELD", "PARKED", "LAST ERROR"},
                                   subscription_rows,
                                   form,
                                   "there are no subscriptions"});
}

void show_subscription(const Globals& globals, const std::string& name) {
  auto platform = globals.open();
  auto& subscriptions = platform.events().subscriptions();
  const auto found = subscriptions.find(name);
  if (!found) {
    std::cerr << "there is no subscription " << name << '\n';
    throw ExitCode{1};
  }
  const auto parts = subscriptions.parts(name);
  const auto parked = subscriptions.parked(name);
  if (globals.json) {
    auto answer = to_json(*found);
    answer["part_list"] = to_json_array(parts);
    answer["parked_events"] = to_json_array(parked);
    std::cout << answer.dump(2) << '\n';
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(parts.size());
  for (const auto& each : parts) {
    rows.push_back({std::to_string(each.part), std::to_string(each.position),
                    std::to_string(each.attempts), or_dash(each.lease_until),
                    or_dash(each.stopped_at),
                    shortened(each.last_error.value_or("-"), shown_error_characters)});
  }
  std::cout << name << ": " << subscription_state(*found) << ", " << found->lag
            << " positions behind\n\n";
  print_table({"PART", "POSITION", "ATTEMPTS", "LEASE UNTIL", "STOPPED AT", "LAST ERROR"}, rows);
  if (parked.empty()) return;
  rows.clear();
  for (const auto& each : parked) {
    rows.push_back({std::to_string(each.position), each.stream, std::to_string(each.version),
                    std::string{to_string(each.kind)}, to_string(each.parked_at),
                    shortened(each.error, shown_error_characters)});
  }
  std::cout << '\n';
  print_table({"POSITION", "STREAM", "VERSION", "KIND", "PARKED AT", "ERROR"}, rows);
}

struct SubscriptionArguments {
  std::string name;
  std::string stream;
  bool parked = false;
  std::int64_t position = 0;
};

using SharedArguments = std::shared_ptr<SubscriptionArguments>;

/// Adds a command that changes a subscription. `change` returns the number of changed things.
CLI::App& add_change(
    CLI::App& group, Globals& globals, const SharedArguments& arguments,
    const std::array<std::string, 4>& texts,
    std::function<std::size_t(Subscriptions& subscriptions, const SubscriptionArguments&)> change) {
  const auto& [name, description, word, why_not] = texts;
  auto& command = add_command(
      group, globals, name, description,
      [&globals, arguments, word = word, why_not = why_not, change = std::move(change)] {
        auto platform = globals.open();
        const auto count = change(platform.events().subscriptions(), *arguments);
        print_effect(globals, {.word = word,
                               .count = count,
                               .asked = std::max<std::size_t>(count, 1),
                               .why_not = arguments->name + " " + why_not});
      });
  command.add_option("NAME", arguments->name, "The subscription's name")->required();
  command.add_flag("--json", globals.json, "Answer in JSON");
  return command;
}

std::size_t resume_subscription(Subscriptions& subscriptions,
                                const SubscriptionArguments& arguments) {
  if (!arguments.stream.empty())
    return subscriptions.resume_parked(arguments.name, arguments.stream);
  if (arguments.parked) return subscriptions.resume_parked(arguments.name);
  return subscriptions.resume(arguments.name) ? 1 : 0;
}

void add_changes(CLI::App& group, Globals& globals) {
  add_change(
      group, globals, std::make_shared<SubscriptionArguments>(),
      {"pause", "Pause a subscription in all processes", "paused", "does not exist, or is paused"},
      [](Subscriptions& subscriptions, const SubscriptionArguments& arguments) {
        return subscriptions.pause(arguments.name) ? 1U : 0U;
      });
  const auto resumed = std::make_shared<SubscriptionArguments>();
  auto& resuming =
      add_change(group, globals, resumed,
                 {"resume", "Continue a paused or stopped subscription, or parked events",
                  "resumed", "does not exist, or has nothing to resume"},
                 resume_subscription);
  resuming.add_flag("--parked", resumed->parked, "Handle all parked events again");
  resuming.add_option("--stream", resumed->stream, "Handle the parked events of this stream again");
  const auto rebuilt = std::make_shared<SubscriptionArguments>();
  auto& rebuilding = add_change(
      group, globals, rebuilt, {"rebuild", "Handle all events again", "rebuilt", "does not exist"},
      [](Subscriptions& subscriptions, const SubscriptionArguments& arguments) {
        return subscriptions.rebuild(arguments.name, arguments.position) ? 1U : 0U;
      });
  rebuilding.add_option("--after", rebuilt->position, "Only the events after this position")
      ->capture_default_str();
  const auto skipped = std::make_shared<SubscriptionArguments>();
  auto& skipping = add_change(
      group, globals, skipped,
      {"skip", "Do not handle an event", "skipped", "has handled that event, or there is none"},
      [](Subscriptions& subscriptions, const SubscriptionArguments& arguments) {
        return subscriptions.skip(arguments.name, arguments.position) ? 1U : 0U;
      });
  skipping.add_option("POSITION", skipped->position, "The event's position")->required();
}

}  // namespace

void add_subscriptions(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "subscriptions", "Operate subscriptions to events");
  auto& listing = add_command(group, globals, "list", "List the subscriptions and their lag",
                              [&globals] { list_subscriptions(globals); });
  listing.add_flag("--json", globals.json, "Answer in JSON");
  allow_group(listing, globals);
  auto name = std::make_shared<std::string>();
  auto& showing = add_command(group, globals, "show", "Show the parts and the parked events",
                              [&globals, name] { show_subscription(globals, *name); });
  showing.add_option("NAME", *name, "The subscription's name")->required();
  showing.add_flag("--json", globals.json, "Answer in JSON");
  add_changes(group, globals);
}

}  // namespace dovetail::cli
