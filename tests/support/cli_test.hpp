// The base of contracts about the command: it calls the command on a backend.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/backend.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"

namespace dovetail::testing {

using Words = std::vector<std::string>;

class CliTest : public BackendTest {
 protected:
  using BackendTest::BackendTest;
  [[nodiscard]] Words call(Words arguments) const {
    arguments.insert(arguments.begin(), command_path);
    for (const auto& each :
         {std::string{"--database"}, backend.url(), std::string{"--schema"}, backend.schema()}) {
      arguments.push_back(each);
    }
    return arguments;
  }

  CommandResult dovetail(const Words& arguments, const std::string& input = {}) {
    return run_command(call(arguments), input);
  }

  /// The output as JSON.
  nlohmann::json ask(Words arguments, const std::string& input = {}) {
    arguments.emplace_back("--json");
    const auto result = dovetail(arguments, input);
    EXPECT_EQ(result.code, 0) << ::testing::PrintToString(arguments) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  /// Enqueues a message and returns its id.
  std::string enqueue(const std::string& topic, const std::string& payload = "") {
    return ask({"enqueue", topic, "--payload-file", "-"}, payload)["message_id"];
  }

  nlohmann::json show(const std::string& id) { return ask({"dead-letters", "show", id}); }
  nlohmann::json status() { return ask({"status"})["outbox"]; }

  struct Claimed {
    std::string owner;
    std::string claim;
  };
  /// Claims the only due message.
  Claimed claim_one(const std::string& lease = "60") {
    const auto answer = ask({"claim", "--lease", lease});
    if (answer["messages"].size() != 1) {
      ADD_FAILURE() << answer.dump();
      return {};
    }
    const auto& message = answer["messages"][0];
    return {answer["owner"],
            message["id"].get<std::string>() + ":" + std::to_string(message["epoch"].get<int>())};
  }

  /// Creates a dead letter of `topic` and returns its id.
  std::string dead_letter(const std::string& topic, const std::string& error = "broken") {
    const auto id = enqueue(topic, "payload of " + topic);
    const auto [owner, claim] = claim_one();
    EXPECT_EQ(dovetail({"fail", "--owner", owner, "--error", error, claim}).out, "failed 1 of 1\n");
    return id;
  }

  CommandResult work_once(const std::string& command, const Words& more = {}) {
    Words arguments{"work", "--once", "--exec", command};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return dovetail(arguments);
  }

  /// A worker that runs in the background during the test. Its output is discarded.
  [[nodiscard]] ChildProcess work_in_background(const std::string& command,
                                                const Words& more = {}) const {
    Words arguments{"work", "--exec", command};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ChildProcess([arguments = call(arguments)] {
      if (std::freopen("/dev/null", "w", stdout) == nullptr ||
          std::freopen("/dev/null", "w", stderr) == nullptr) {
        ::_exit(126);
      }
      std::vector<char*> argv;
      for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    });
  }

  TemporaryDirectory directory;
};

}  // namespace dovetail::testing
