#include <algorithm>
#include <array>

#include "cli/cli.hpp"

namespace dovetail::cli {
namespace {

constexpr std::array queue_names{"outbox", "inbox", "timers"};

CLI::Validator queue_rule() {
  const auto check = [](const std::string& name) -> std::string {
    if (std::ranges::find(queue_names, name) != queue_names.end()) return {};
    return "there is no queue \"" + name + "\"; the queues are outbox, inbox and timers";
  };
  return {check, {}};
}

}  // namespace

void add_queue_option(CLI::App& command, std::string& queue) {
  command.add_option("--queue", queue, "outbox, inbox or timers")
      ->check(queue_rule())
      ->capture_default_str();
}

WorkQueue& queue_named(Platform& platform, const std::string& name) {
  if (name == "inbox") return platform.inbox().queue();
  if (name == "timers") return platform.timers().queue();
  return platform.outbox();
}

}  // namespace dovetail::cli
