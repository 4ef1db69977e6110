#include <iostream>

#include "cli/group_list.hpp"
#include "cli/unhandled.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json_array;
using nlohmann::ordered_json;

constexpr std::size_t shown_topics_characters = 80;  // in a table

/// `outbox: email.send, report.build; inbox: all topics`
std::string shown_handlers(const InstanceInfo& instance) {
  std::string text;
  for (const auto& queue : instance.queues) {
    if (!text.empty()) text += "; ";
    text += queue.name + ":";
    if (queue.all_topics) {
      text += " all topics";
      continue;
    }
    auto topics = queue.topics;
    topics.insert(topics.end(), queue.patterns.begin(), queue.patterns.end());
    for (const auto& topic : topics) text += (&topic == &topics.front() ? " " : ", ") + topic;
  }
  return shortened(text, shown_topics_characters);
}

struct FoundInstances {
  std::vector<InstanceInfo> instances;
  std::vector<UnhandledTopic> unhandled;
};

const TableCells instance_headings{"INSTANCE", "HOST",       "PID",          "VERSION",
                                   "STATE",    "STARTED AT", "HEARTBEAT AT", "HANDLES"};
constexpr const char* no_instances = "no instances are registered";

FoundInstances instances_of(Platform& platform) {
  return {platform.instances().list(), platform.instances().unhandled_topics()};
}

std::vector<TableCells> instance_rows(const FoundInstances& found) {
  std::vector<TableCells> rows;
  rows.reserve(found.instances.size());
  for (const auto& instance : found.instances) {
    rows.push_back({instance.id.to_string(), instance.host, std::to_string(instance.pid),
                    instance.version,
                    instance.stale ? "stale" : std::string{to_string(instance.state)},
                    to_string(instance.started_at), to_string(instance.heartbeat_at),
                    shown_handlers(instance)});
  }
  return rows;
}

ordered_json instances_json(const FoundInstances& found) {
  return {{"instances", to_json_array(found.instances)},
          {"unhandled_topics", to_json_array(found.unhandled)}};
}

void show_group_instances(const Globals& globals) {
  const auto answers = list_of_group<FoundInstances>(
      globals, instances_of, {instance_headings, instance_rows, instances_json, no_instances});
  const auto rows = [](const FoundInstances& found) { return unhandled_rows(found.unhandled); };
  const bool unhandled = std::ranges::any_of(
      answers, [](const auto& each) { return each.answer && !each.answer->unhandled.empty(); });
  if (unhandled && !globals.json) {
    std::cout << '\n';
    print_group_table<FoundInstances>(answers, {unhandled_headings, rows, {}, {}});
  }
  finish_group(globals, answers);
}

void show_instances(const Globals& globals) {
  if (globals.has_group()) return show_group_instances(globals);
  auto platform = globals.open();
  const auto found = instances_of(platform);
  if (globals.json) {
    std::cout << instances_json(found).dump(2) << '\n';
    return;
  }
  if (found.instances.empty()) {
    std::cout << no_instances << '\n';
  } else {
    print_table(instance_headings, instance_rows(found));
  }
  if (found.unhandled.empty()) return;
  std::cout << '\n';
  print_table(unhandled_headings, unhandled_rows(found.unhandled));
}

}  // namespace

void add_instances(CLI::App& app, Globals& globals) {
  auto& command =
      add_command(app, globals, "instances",
                  "List the processes that work on the database, and topics nobody handles",
                  [&globals] { show_instances(globals); });
  command.footer(
      "A stale instance has sent no heartbeat for 90 seconds. Its row is deleted after an hour.\n"
      "A topic that nobody handles has a message that has been due for a minute, and no live "
      "instance\n"
      "has a handler for it. Only the first 10,000 due messages of each priority are read: WAITING "
      "is a\n"
      "lower bound.");
  command.add_flag("--json", globals.json, "Answer in JSON");
  allow_group(command, globals);
}

}  // namespace dovetail::cli
