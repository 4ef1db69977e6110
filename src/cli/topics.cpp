#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/cli.hpp"

namespace dovetail::cli {
namespace {

void print_answer(const Globals& globals, const std::string& topic, bool paused, bool changed) {
  if (globals.json) {
    std::cout
        << nlohmann::ordered_json{{"topic", topic}, {"paused", paused}, {"changed", changed}}.dump()
        << '\n';
  } else if (changed) {
    std::cout << (paused ? "paused " : "resumed ") << topic << '\n';
  } else {
    std::cout << topic << (paused ? " was paused already\n" : " was not paused\n");
  }
}

void pause(const Globals& globals, const std::string& topic) {
  auto platform = globals.open();
  print_answer(globals, topic, true, platform.outbox().pause(topic));
}

void resume(const Globals& globals, const std::string& topic) {
  auto platform = globals.open();
  print_answer(globals, topic, false, platform.outbox().resume(topic));
}

}  // namespace

void add_topics(CLI::App& app, Globals& globals) {
  auto topic = std::make_shared<std::string>();
  const auto add = [&](const std::string& name, const std::string& description, auto run) {
    auto& command = add_command(app, globals, name, description,
                                [&globals, topic, run] { run(globals, *topic); });
    command.add_option("TOPIC", *topic, "1 to 255 characters")->required()->check(topic_rule());
    command.add_flag("--json", globals.json, "Answer in JSON");
  };
  add("pause", "Keep a topic's messages from being claimed", pause);
  add("resume", "Let a paused topic's messages be claimed again", resume);
}

}  // namespace dovetail::cli
