#include <iostream>

#include "cli/cli.hpp"
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
    for (const auto& topic : queue.topics)
      text += (&topic == &queue.topics.front() ? " " : ", ") + topic;
  }
  return shortened(text, shown_topics_characters);
}

void print_instances(const std::vector<InstanceInfo>& instances) {
  if (instances.empty()) {
    std::cout << "no instances are registered\n";
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(instances.size());
  for (const auto& instance : instances) {
    rows.push_back({instance.id.to_string(), instance.host, std::to_string(instance.pid),
                    instance.version,
                    instance.stale ? "stale" : std::string{to_string(instance.state)},
                    to_string(instance.started_at), to_string(instance.heartbeat_at),
                    shown_handlers(instance)});
  }
  print_table(
      {"INSTANCE", "HOST", "PID", "VERSION", "STATE", "STARTED AT", "HEARTBEAT AT", "HANDLES"},
      rows);
}

void print_unhandled(const std::vector<UnhandledTopic>& topics) {
  if (topics.empty()) return;
  std::cout << '\n';
  print_table(unhandled_headings, unhandled_rows(topics));
}

void show_instances(const Globals& globals) {
  auto platform = globals.open();
  const auto instances = platform.instances().list();
  const auto unhandled = platform.instances().unhandled_topics();
  if (!globals.json) {
    print_instances(instances);
    print_unhandled(unhandled);
    return;
  }
  const ordered_json answer{{"instances", to_json_array(instances)},
                            {"unhandled_topics", to_json_array(unhandled)}};
  std::cout << answer.dump(2) << '\n';
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
}

}  // namespace dovetail::cli
