#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/group_list.hpp"

namespace dovetail::cli {
namespace {

struct TopicArguments {
  std::string queue = default_queue;
  std::string topic;
};

void print_answer(const Globals& globals, const TopicArguments& arguments, bool paused,
                  bool changed) {
  const auto& [queue, topic] = arguments;
  if (globals.json) {
    const nlohmann::ordered_json answer{
        {"queue", queue}, {"topic", topic}, {"paused", paused}, {"changed", changed}};
    std::cout << answer.dump() << '\n';
  } else if (changed) {
    std::cout << (paused ? "paused " : "resumed ") << topic << '\n';
  } else {
    std::cout << topic << (paused ? " was paused already\n" : " was not paused\n");
  }
}

void set_paused(const Globals& globals, const TopicArguments& arguments, bool paused) {
  const auto change = [&](Platform& platform) {
    auto& queue = queue_named(platform, arguments.queue);
    return paused ? queue.pause(arguments.topic) : queue.resume(arguments.topic);
  };
  if (globals.has_group()) {
    const auto changes = change_group(globals, paused ? "paused" : "resumed",
                                      [&](Platform& platform) { return change(platform) ? 1 : 0; });
    return finish_group(globals, changes.answers);
  }
  auto platform = globals.open();
  print_answer(globals, arguments, paused, change(platform));
}

void pause(const Globals& globals, const TopicArguments& arguments) {
  set_paused(globals, arguments, true);
}

void resume(const Globals& globals, const TopicArguments& arguments) {
  set_paused(globals, arguments, false);
}

}  // namespace

void add_topics(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<TopicArguments>();
  const auto add = [&](const std::string& name, const std::string& description, auto run) {
    auto& command = add_command(app, globals, name, description,
                                [&globals, arguments, run] { run(globals, *arguments); });
    command.add_option("TOPIC", arguments->topic, "1 to 255 characters")
        ->required()
        ->check(topic_rule());
    add_queue_option(command, arguments->queue);
    allow_group(command, globals);
    command.add_flag("--json", globals.json, "Answer in JSON");
  };
  add("pause", "Pause a topic: its messages stay queued", pause);
  add("resume", "Resume a paused topic", resume);
}

}  // namespace dovetail::cli
