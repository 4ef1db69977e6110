#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/cli.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;

// --- enqueue
// ---------------------------------------------------------------------------------------------------------

struct EnqueueArguments {
  std::string topic;
  std::string payload;
  std::string payload_file;
  std::string correlation_id;
  std::string due_at;
  std::string message_id;
};

std::string read_all(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (in.bad() || (path != "-" && !file.is_open())) throw std::invalid_argument("cannot read " + path);
  return text;
}

void enqueue(const Globals& globals, const EnqueueArguments& arguments) {
  EnqueueRequest request{.topic = arguments.topic, .payload = arguments.payload};
  if (!arguments.payload_file.empty()) request.payload = read_all(arguments.payload_file);
  if (!arguments.correlation_id.empty()) request.correlation_id = arguments.correlation_id;
  if (!arguments.due_at.empty()) request.due_at = parse_time("--due-at", arguments.due_at);
  if (!arguments.message_id.empty()) {
    request.message_id = parse_id<OutboxMessageId>("--message-id", arguments.message_id);
  }
  auto platform = globals.open();
  const auto id = platform.outbox().enqueue(request);
  if (globals.json) {
    std::cout << ordered_json{{"message_id", id.to_string()}}.dump() << '\n';
  } else {
    std::cout << id.to_string() << '\n';
  }
}

// --- claim and ack
// ---------------------------------------------------------------------------------------------------

struct ClaimArguments {
  std::string owner;
  int batch_size = 50;
  double lease_seconds = 30;
};

ordered_json to_json(const ClaimedMessage& claimed) {
  const auto& message = claimed.message;
  return {{"id", message.id.to_string()},
          {"epoch", claimed.claim.epoch},
          {"topic", message.topic},
          {"payload", message.payload},
          {"correlation_id", message.correlation_id ? ordered_json(*message.correlation_id) : ordered_json()},
          {"created_at", to_string(message.created_at)},
          {"due_at", to_string(message.due_at)},
          {"attempts", message.attempts},
          {"lease_until", to_string(claimed.lease_until)}};
}

void claim(const Globals& globals, const ClaimArguments& arguments) {
  ClaimRequest request{.owner = OwnerToken::generate(), .batch_size = arguments.batch_size};
  if (!arguments.owner.empty()) request.owner = parse_id<OwnerToken>("--owner", arguments.owner);
  if (!(arguments.lease_seconds > 0 && arguments.lease_seconds <= 86'400)) {
    throw std::out_of_range("--lease must be above 0 and at most 86400 seconds");
  }
  request.lease = std::chrono::milliseconds{static_cast<std::int64_t>(arguments.lease_seconds * 1000)};
  auto platform = globals.open();
  const auto claimed = platform.outbox().claim(request);
  if (globals.json) {
    ordered_json answer{{"owner", request.owner.to_string()}, {"messages", ordered_json::array()}};
    for (const auto& each : claimed) answer["messages"].push_back(to_json(each));
    std::cout << answer.dump(2) << '\n';
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(claimed.size());
  for (const auto& each : claimed) {
    rows.push_back({each.message.id.to_string() + ":" + std::to_string(each.claim.epoch), each.message.topic,
                    std::to_string(each.message.attempts), to_string(each.lease_until)});
  }
  std::cout << "owner " << request.owner.to_string() << '\n';
  if (rows.empty()) {
    std::cout << "nothing is due\n";
  } else {
    print_table({"CLAIM", "TOPIC", "ATTEMPTS", "LEASE UNTIL"}, rows);
  }
}

struct AckArguments {
  std::string owner;
  std::vector<std::string> claims;
};

Claim parse_claim(const std::string& text) {
  const auto colon = text.find(':');
  std::size_t end = 0;
  Claim claim;
  try {
    claim.id = parse_id<OutboxWorkItemId>("CLAIM", text.substr(0, colon));
    claim.epoch = std::stoll(text.substr(colon + 1), &end);
  } catch (const std::logic_error&) {
    end = 0;
  }
  if (colon == std::string::npos || end == 0 || end != text.size() - colon - 1) {
    throw std::invalid_argument("a CLAIM is <id>:<epoch> as `dovetail claim` prints it, got " + text);
  }
  return claim;
}

void ack(const Globals& globals, const AckArguments& arguments) {
  const auto owner = parse_id<OwnerToken>("--owner", arguments.owner);
  std::vector<Claim> claims;
  for (const auto& text : arguments.claims) claims.push_back(parse_claim(text));
  auto platform = globals.open();
  const auto acked = platform.outbox().ack(owner, claims);
  if (globals.json) {
    std::cout << ordered_json{{"acked", acked}, {"asked", claims.size()}}.dump() << '\n';
  } else {
    std::cout << "acked " << acked << " of " << claims.size() << '\n';
  }
}

// --- status
// ----------------------------------------------------------------------------------------------------------

void status(const Globals& globals) {
  auto platform = globals.open();
  const auto counts = platform.outbox().counts();
  const auto oldest_ms =
      counts.oldest_due ? std::chrono::duration_cast<std::chrono::milliseconds>(*counts.oldest_due).count()
                        : 0;
  if (globals.json) {
    const ordered_json outbox{
        {"ready", counts.ready},
        {"scheduled", counts.scheduled},
        {"in_progress", counts.in_progress},
        {"done", counts.done},
        {"failed", counts.failed},
        {"counted_up_to", counts.counted_up_to},
        {"oldest_due_ms", counts.oldest_due ? ordered_json(oldest_ms) : ordered_json()}};
    std::cout
        << ordered_json{{"database", platform.name()}, {"schema", globals.schema}, {"outbox", outbox}}.dump(2)
        << '\n';
    return;
  }
  const auto shown = [&](std::int64_t count) {
    return std::to_string(count) + (count >= counts.counted_up_to ? "+" : "");
  };
  std::cout << platform.name() << " schema " << globals.schema << "\n\n";
  print_table(
      {"QUEUE", "READY", "SCHEDULED", "IN PROGRESS", "DONE", "FAILED", "OLDEST DUE"},
      {{"outbox", shown(counts.ready), shown(counts.scheduled), shown(counts.in_progress), shown(counts.done),
        shown(counts.failed), counts.oldest_due ? std::to_string(oldest_ms) + " ms" : "-"}});
}

}  // namespace

void add_enqueue(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<EnqueueArguments>();
  auto& command = add_command(app, globals, "enqueue", "Store a message in the outbox; prints its id",
                              [&globals, arguments] { enqueue(globals, *arguments); });
  command.add_option("TOPIC", arguments->topic, "1 to 255 characters")->required();
  auto* payload = command.add_option("PAYLOAD", arguments->payload, "The message's text; empty if absent");
  command
      .add_option("--payload-file", arguments->payload_file,
                  "Read the payload from a file, - for standard input")
      ->excludes(payload);
  command.add_option("--correlation-id", arguments->correlation_id, "Up to 255 characters");
  command.add_option("--due-at", arguments->due_at, "Not before, such as 2026-01-31T09:30:00Z");
  command.add_option("--message-id", arguments->message_id,
                     "Your own UUID: a repeated enqueue stores it once");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_claim(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<ClaimArguments>();
  auto& command = add_command(app, globals, "claim", "Lease messages that are due",
                              [&globals, arguments] { claim(globals, *arguments); });
  command.add_option("--owner", arguments->owner, "The worker's UUID; drawn if absent");
  command.add_option("--batch", arguments->batch_size, "How many at most")->capture_default_str();
  command.add_option("--lease", arguments->lease_seconds, "Seconds")->capture_default_str();
  command.add_flag("--json", globals.json, "Answer in JSON, with the payloads");
}

void add_ack(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<AckArguments>();
  auto& command = add_command(app, globals, "ack", "Mark claimed messages as done",
                              [&globals, arguments] { ack(globals, *arguments); });
  command.add_option("--owner", arguments->owner, "The worker's UUID that claimed them")->required();
  command.add_option("CLAIM", arguments->claims, "<id>:<epoch> as claim prints it")->required();
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_status(CLI::App& app, Globals& globals) {
  auto& command = add_command(app, globals, "status", "How many messages are in which state",
                              [&globals] { status(globals); });
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
