#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/group_file.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;

constexpr SecondsRange longest_ahead{std::chrono::milliseconds{0}, std::chrono::hours{24 * 3650}};

struct EnqueueArguments {
  std::string to;
  std::string topic;
  std::string payload;
  std::string payload_file;
  std::string correlation_id;
  std::string due_at;
  std::optional<double> delay;
  std::string expires_at;
  std::string message_id;
  std::string unique_key;
  std::string stream;
  std::vector<std::string> headers;
  std::vector<std::string> joins;
  int priority = 0;
};

std::string read_all(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (in.bad() || (path != "-" && !file.is_open()))
    throw std::invalid_argument("cannot read " + path);
  return text;
}

Headers parse_headers(const std::vector<std::string>& texts) {
  Headers headers;
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw std::invalid_argument("--header must be NAME=VALUE, got " + text);
    }
    const auto name = text.substr(0, equals);
    if (!headers.emplace(name, text.substr(equals + 1)).second) {
      throw std::invalid_argument("--header " + name + " is given twice");
    }
  }
  return headers;
}

EnqueueRequest parse_request(const EnqueueArguments& arguments) {
  EnqueueRequest request{.topic = arguments.topic,
                         .payload = arguments.payload,
                         .due_at = parse_time_if_given("--due-at", arguments.due_at),
                         .headers = parse_headers(arguments.headers),
                         .expires_at = parse_time_if_given("--expires-at", arguments.expires_at),
                         .priority = arguments.priority};
  if (arguments.delay) {
    if (request.due_at) throw std::invalid_argument("give either --due-at or --delay");
    request.delay = parse_seconds("--delay", *arguments.delay, longest_ahead);
  }
  if (!arguments.correlation_id.empty()) request.correlation_id = arguments.correlation_id;
  if (!arguments.unique_key.empty()) request.unique_key = arguments.unique_key;
  if (!arguments.stream.empty()) request.stream = arguments.stream;
  if (!arguments.message_id.empty()) {
    request.message_id = parse_id<MessageId>("--message-id", arguments.message_id);
  }
  for (const auto& join : arguments.joins)
    request.joins.push_back(parse_id<JoinId>("--join", join));
  if (!arguments.payload_file.empty()) request.payload = read_all(arguments.payload_file);
  return request;
}

/// Opens the database, or the database of the group that --to names.
Platform open_target(const Globals& globals, const std::string& to) {
  if (!globals.has_group()) {
    if (!to.empty()) {
      throw std::invalid_argument("--to names a database of a group: give --group FILE, too");
    }
    return globals.open();
  }
  if (to.empty()) {
    throw std::invalid_argument("--to is required with --group: it names the database of " +
                                globals.group + " that gets the message");
  }
  const auto entry = find_database(globals, to);
  try {
    return Platform::open(entry.url, options_of(globals, entry));
  } catch (const SchemaMismatch& error) {
    throw SchemaMismatch(std::string{error.what()} + "\n" + migrate_hint(globals));
  }
}

void enqueue(const Globals& globals, const EnqueueArguments& arguments) {
  const auto request = parse_request(arguments);
  auto platform = open_target(globals, arguments.to);
  const auto answer = platform.outbox().enqueue(request);
  if (globals.json) {
    std::cout
        << ordered_json{{"message_id", answer.to_string()}, {"stored", answer.stored()}}.dump()
        << '\n';
    return;
  }
  std::cout << answer.to_string() << '\n';
  if (!answer.stored()) std::cerr << "already there: nothing was stored\n";
}

void add_times(CLI::App& command, EnqueueArguments& arguments) {
  command
      .add_option("--due-at", arguments.due_at,
                  "Claim it at this time or later, such as 2026-01-31T09:30:00Z")
      ->check(time_rule());
  command.add_option("--delay", arguments.delay,
                     "Seconds until it is due, by the database's clock; instead of --due-at");
  command
      .add_option(
          "--expires-at", arguments.expires_at,
          "The message expires at this time: from then on it fails instead of being claimed")
      ->check(time_rule());
}

}  // namespace

void add_enqueue(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<EnqueueArguments>();
  auto& command =
      add_command(app, globals, "enqueue", "Store a message in the outbox; prints its id",
                  [&globals, arguments] { enqueue(globals, *arguments); });
  allow_group(command, globals);
  command.add_option("--to", arguments->to, "With --group: the key of the database that gets it")
      ->type_name("KEY");
  command.add_option("TOPIC", arguments->topic, "1 to 255 characters")
      ->required()
      ->check(topic_rule());
  auto* payload =
      command.add_option("PAYLOAD", arguments->payload, "The message's text; empty if absent");
  command
      .add_option("--payload-file", arguments->payload_file,
                  "Read the payload from a file, - for standard input")
      ->excludes(payload);
  command.add_option("--correlation-id", arguments->correlation_id, "Up to 255 characters");
  command
      .add_option("--header", arguments->headers,
                  "A header of the message, NAME=VALUE; may be repeated")
      ->allow_extra_args(false);
  add_times(command, *arguments);
  command
      .add_option("--priority", arguments->priority,
                  "Messages with a higher priority are claimed first")
      ->check(CLI::Range(-5, 5))
      ->capture_default_str();
  command.add_option("--message-id", arguments->message_id,
                     "Your own UUID: a repeated enqueue stores it once");
  command.add_option("--unique-key", arguments->unique_key,
                     "Store nothing while a message with this key is ready or in progress");
  command.add_option("--stream", arguments->stream,
                     "Handle it in order with the other messages of this stream");
  command.add_option("--join", arguments->joins, "Make it a step of this join; may be repeated")
      ->allow_extra_args(false);
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
