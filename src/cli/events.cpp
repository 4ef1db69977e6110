#include <charconv>
#include <csignal>
#include <iostream>
#include <thread>

#include "cli/long_run.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json;
using nlohmann::ordered_json;

struct AppendArguments {
  std::string stream;
  std::string type;
  std::string data;
  std::string metadata;
  std::string correlation_id;
  std::string causation_id;
  std::string id;
  std::string expected = "any";
  bool publish = false;
};

struct ReadArguments {
  std::string stream;
  bool all = false;
  bool backwards = false;
  std::optional<std::int64_t> from;
  int limit = 100;
  std::vector<std::string> types;
  std::vector<std::string> prefixes;
};

struct EventStreamArguments {
  std::string prefix;
  std::string start_after;
  int limit = 100;
};

ExpectedVersion parse_expected(const std::string& text) {
  if (text == "any") return ExpectedVersion::any();
  if (text == "no_stream") return ExpectedVersion::no_stream();
  if (text == "stream_exists") return ExpectedVersion::stream_exists();
  std::int64_t version = -1;
  const auto* end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, version);
      read.ec != std::errc{} || read.ptr != end || version < 0) {
    throw std::invalid_argument(
        "--expected must be a version, any, no_stream or stream_exists, got " + text);
  }
  return ExpectedVersion::exactly(version);
}

std::optional<std::string> text_if_given(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional{text};
}

// --- append

void append_event(const Globals& globals, const AppendArguments& arguments) {
  NewEvent event{.type = arguments.type,
                 .data = arguments.data,
                 .metadata = text_if_given(arguments.metadata),
                 .correlation_id = text_if_given(arguments.correlation_id),
                 .causation_id = text_if_given(arguments.causation_id)};
  if (!arguments.id.empty()) event.id = parse_id<EventId>("--id", arguments.id);
  const auto expected = parse_expected(arguments.expected);
  auto platform = globals.open();
  try {
    const auto done = platform.events().append(arguments.stream, expected, {event},
                                               {.publish = arguments.publish});
    if (globals.json) {
      const ordered_json answer{
          {"stream", arguments.stream}, {"version", done.version}, {"stored", done.stored}};
      std::cout << answer.dump() << '\n';
    } else {
      std::cout << done.version << '\n';
    }
  } catch (const VersionConflict& conflict) {
    std::cerr << conflict.what() << '\n';
    throw ExitCode{1};
  } catch (const StreamClosed& closed) {
    std::cerr << closed.what() << '\n';
    throw ExitCode{1};
  }
}

// --- read and tail

void print_event(const Globals& globals, const Event& event) {
  if (globals.json) {
    std::cout << to_json(event).dump() << std::endl;
    return;
  }
  const auto position = event.position > 0 ? std::to_string(event.position) + " " : std::string{};
  std::cout << position << event.stream << ' ' << event.version << ' ' << event.type << ' '
            << event.data << std::endl;
}

void read_events(const Globals& globals, const ReadArguments& arguments) {
  if (arguments.all != arguments.stream.empty())
    throw std::invalid_argument("give either a stream or --all");
  if (!arguments.all && !(arguments.types.empty() && arguments.prefixes.empty()))
    throw std::invalid_argument("--type and --prefix need --all");
  if (arguments.all && arguments.backwards)
    throw std::invalid_argument("--backwards needs a stream");
  auto platform = globals.open();
  std::vector<Event> events;
  if (!arguments.all) {
    events = platform.events().read(
        arguments.stream,
        {.from = arguments.from, .backwards = arguments.backwards, .size = arguments.limit});
  } else {
    const auto head = platform.events().stamp();
    FeedPage page{.after = arguments.from.value_or(1) - 1,
                  .size = arguments.limit,
                  .types = arguments.types,
                  .prefixes = arguments.prefixes};
    while (events.empty() && page.after < head) {
      auto feed = platform.events().read_all(page);
      events = std::move(feed.events);
      page.after = feed.upto;
    }
  }
  for (const auto& event : events) print_event(globals, event);
}

void tail_events(const Globals& globals, const ReadArguments& arguments) {
  StopSignals signals;
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has ended is an error of the write
  auto platform = globals.open();
  std::stop_source stop;
  std::jthread waiting([&](const std::stop_token& done) {
    if (signals.wait_for_end(std::nullopt, done)) stop.request_stop();
  });
  TailOptions options{.types = arguments.types, .prefixes = arguments.prefixes};
  if (arguments.from) options.after = *arguments.from - 1;
  platform.events().subscriptions().tail(
      options,
      [&](const Event& event) {
        print_event(globals, event);
        if (!std::cout) stop.request_stop();
      },
      stop.get_token());
}

// --- streams

void list_event_streams(const Globals& globals, const EventStreamArguments& arguments) {
  EventStreamPage page{.prefix = arguments.prefix, .size = arguments.limit};
  if (!arguments.start_after.empty()) page.after = arguments.start_after;
  auto platform = globals.open();
  const auto streams = platform.events().streams(page);
  if (globals.json) {
    std::cout << ordered_json{{"streams", json::to_json_array(streams)}}.dump(2) << '\n';
    return;
  }
  if (streams.empty()) {
    std::cout << "no stream has events\n";
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(streams.size());
  for (const auto& each : streams) {
    rows.push_back({each.key, std::to_string(each.version), std::to_string(each.first_version),
                    to_string(each.created_at), or_dash(each.closed_at)});
  }
  print_table({"STREAM", "VERSION", "FIRST", "CREATED AT", "CLOSED AT"}, rows);
  if (streams.size() >= static_cast<std::size_t>(arguments.limit))
    std::cerr << "there may be more: --start-after '" << streams.back().key << "'\n";
}

void add_append_event(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<AppendArguments>();
  auto& command = add_command(group, globals, "append", "Append an event; prints its version",
                              [&globals, arguments] { append_event(globals, *arguments); });
  command.add_option("STREAM", arguments->stream, "The stream's key")->required();
  command.add_option("TYPE", arguments->type, "The event's type")->required();
  command.add_option("DATA", arguments->data, "The event's data");
  command
      .add_option("--expected", arguments->expected,
                  "The stream's version, any, no_stream or stream_exists")
      ->capture_default_str();
  command.add_option("--id", arguments->id, "The event's id; makes a repetition safe");
  command.add_option("--metadata", arguments->metadata, "The event's metadata");
  command.add_option("--correlation-id", arguments->correlation_id, "Its correlation id");
  command.add_option("--causation-id", arguments->causation_id, "Its causation id");
  command.add_flag("--publish", arguments->publish, "Also enqueue it as a message of the outbox");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_event_filter(CLI::App& command, Globals& globals, ReadArguments& arguments) {
  command.add_option("--type", arguments.types, "Only events of this type; may be repeated");
  command.add_option("--prefix", arguments.prefixes,
                     "Only streams whose keys begin with this; may be repeated");
  command.add_flag("--json", globals.json, "Print each event as a line of JSON");
}

}  // namespace

void add_events(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "events", "Append and read events");
  add_append_event(group, globals);

  auto reading = std::make_shared<ReadArguments>();
  auto& read_command = add_command(group, globals, "read", "Print events of a stream, or of all",
                                   [&globals, reading] { read_events(globals, *reading); });
  read_command.add_option("STREAM", reading->stream, "The stream's key");
  read_command.add_flag("--all", reading->all, "The events of all streams, in their order");
  read_command.add_option("--from", reading->from, "The first version, or position with --all");
  read_command.add_flag("--backwards", reading->backwards, "From the last version downwards");
  read_command.add_option("--limit", reading->limit, "At most this many")->capture_default_str();
  add_event_filter(read_command, globals, *reading);

  auto tailing = std::make_shared<ReadArguments>();
  auto& tail_command = add_command(group, globals, "tail", "Print events as they are appended",
                                   [&globals, tailing] { tail_events(globals, *tailing); });
  tail_command.add_option("--from", tailing->from, "The first position; absent: new events only");
  add_event_filter(tail_command, globals, *tailing);

  auto listing = std::make_shared<EventStreamArguments>();
  auto& streams = add_command(group, globals, "streams", "List the streams of the event store",
                              [&globals, listing] { list_event_streams(globals, *listing); });
  streams.add_option("--prefix", listing->prefix, "Only keys that begin with this");
  streams.add_option("--start-after", listing->start_after, "The last key of the previous page");
  streams.add_option("--limit", listing->limit, "At most this many")->capture_default_str();
  streams.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
