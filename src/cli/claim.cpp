#include <iostream>

#include "cli/cli.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json_array;
using nlohmann::ordered_json;

struct ClaimArguments {
  std::string queue = default_queue;
  std::string owner;
  std::vector<std::string> topics;
  int batch_size = 50;
  double lease_seconds = 30;
  std::optional<int> max_attempts;
  bool streams = false;
};

void print_claimed(const std::vector<ClaimedMessage>& claimed) {
  if (claimed.empty()) {
    std::cout << "nothing is due\n";
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(claimed.size());
  for (const auto& each : claimed) {
    rows.push_back({each.message.id.to_string() + ":" + std::to_string(each.claim.epoch),
                    each.message.topic, each.message.stream.value_or("-"),
                    std::to_string(each.message.attempts), to_string(each.lease_until)});
  }
  print_table({"CLAIM", "TOPIC", "STREAM", "ATTEMPTS", "LEASE UNTIL"}, rows);
}

void claim(const Globals& globals, const ClaimArguments& arguments) {
  warn_of_commas(arguments.topics);
  ClaimRequest request{.owner = OwnerToken::generate(),
                       .batch_size = arguments.batch_size,
                       .lease = parse_seconds("--lease", arguments.lease_seconds, lease_range),
                       .topics = arguments.topics,
                       .max_attempts = arguments.max_attempts};
  if (!arguments.owner.empty()) request.owner = parse_id<OwnerToken>("--owner", arguments.owner);
  auto platform = globals.open();
  auto& queue = queue_named(platform, arguments.queue);
  const auto claimed = arguments.streams ? queue.claim_streams(request) : queue.claim(request);
  if (globals.json) {
    const ordered_json answer{{"owner", request.owner.to_string()},
                              {"messages", to_json_array(claimed)}};
    std::cout << answer.dump(2) << '\n';
    return;
  }
  std::cout << "owner " << request.owner.to_string() << '\n';
  print_claimed(claimed);
}

void reap(const Globals& globals, const std::string& queue) {
  auto platform = globals.open();
  print_effect(globals, {.word = "reaped", .count = queue_named(platform, queue).reap_expired()});
}

}  // namespace

void add_claim(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<ClaimArguments>();
  auto& command = add_command(app, globals, "claim", "Claim due messages under a lease",
                              [&globals, arguments] { claim(globals, *arguments); });
  add_queue_option(command, arguments->queue);
  command.add_option("--owner", arguments->owner, "The worker's UUID; generated if absent");
  command.add_option("--topic", arguments->topics, "Only messages of this topic; may be repeated")
      ->allow_extra_args(false)
      ->check(topic_rule());
  command.add_option("--batch", arguments->batch_size, "Maximum number of messages")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--lease", arguments->lease_seconds, "Seconds until the lease expires")
      ->capture_default_str();
  command
      .add_option("--max-attempts", arguments->max_attempts,
                  "Messages whose lease expired on this attempt fail; without it, none fails")
      ->check(CLI::Range(1, 1'000));
  command.add_flag("--streams", arguments->streams,
                   "Claim messages of streams, instead of messages without a stream");
  command.add_flag("--json", globals.json, "Answer in JSON, with the payloads");
}

void add_reap(CLI::App& app, Globals& globals) {
  auto queue = std::make_shared<std::string>(default_queue);
  auto& command = add_command(app, globals, "reap", "Take back every expired lease",
                              [&globals, queue] { reap(globals, *queue); });
  add_queue_option(command, *queue);
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
