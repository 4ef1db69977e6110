#include <iostream>

#include "cli/group_list.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json;
using nlohmann::ordered_json;

struct StreamArguments {
  std::string queue = default_queue;
  std::string stream;
  std::string start_after;
  int limit = 100;
  bool blocked = false;
};

std::string at_most(std::int64_t messages) {
  return messages >= 1'000 ? "1000+" : std::to_string(messages);
}

using Streams = std::vector<StreamInfo>;

const TableCells stream_headings{"STREAM",     "STATE",    "MESSAGES",
                                 "HEAD TOPIC", "ATTEMPTS", "LAST ERROR"};

std::vector<TableCells> stream_rows(const Streams& streams) {
  std::vector<TableCells> rows;
  rows.reserve(streams.size());
  for (const auto& each : streams) {
    rows.push_back({each.stream, std::string{to_string(each.state)}, at_most(each.messages),
                    each.head_topic, std::to_string(each.head_attempts),
                    shortened(each.last_error.value_or("-"), shown_error_characters)});
  }
  return rows;
}

void list_group_streams(const Globals& globals, const StreamArguments& arguments,
                        const StreamPage& page, const std::string& none) {
  require_one_database(globals, page.after.has_value());
  const auto ask = [=, queue = arguments.queue](Platform& platform) {
    return queue_named(platform, queue).streams(page);
  };
  const auto form = [](const Streams& streams) {
    return ordered_json{{"streams", json::to_json_array(streams)}};
  };
  finish_group(globals,
               list_of_group<Streams>(globals, ask, {stream_headings, stream_rows, form, none}));
}

void list(const Globals& globals, const StreamArguments& arguments) {
  StreamPage page{.size = arguments.limit, .only_blocked = arguments.blocked};
  if (!arguments.start_after.empty()) page.after = arguments.start_after;
  const std::string none = arguments.blocked ? "no stream is blocked" : "no stream has messages";
  if (globals.has_group()) return list_group_streams(globals, arguments, page, none);
  auto platform = globals.open();
  const auto streams = queue_named(platform, arguments.queue).streams(page);
  const bool full = streams.size() >= static_cast<std::size_t>(page.size);
  if (globals.json) {
    std::cout << json::stream_page(streams, full).dump(2) << '\n';
    return;
  }
  if (streams.empty()) {
    std::cout << none << '\n';
    return;
  }
  print_table(stream_headings, stream_rows(streams));
  if (full) {
    std::cerr << "there may be more: --start-after '" << streams.back().stream << "'\n";
  }
}

void show_stream(const Globals& globals, const StreamArguments& arguments) {
  auto platform = globals.open();
  const auto found = queue_named(platform, arguments.queue).find_stream(arguments.stream);
  if (!found) {
    std::cerr << "the stream " << arguments.stream << " has no messages\n";
    throw ExitCode{1};
  }
  if (globals.json) {
    std::cout << to_json(*found).dump(2) << '\n';
    return;
  }
  const auto head = found->head ? found->head->to_string() : std::string{"-"};
  const auto owner = found->owner ? found->owner->to_string() : std::string{"-"};
  print_table({"FIELD", "VALUE"}, {{"stream", found->stream},
                                   {"state", std::string{to_string(found->state)}},
                                   {"messages", at_most(found->messages)},
                                   {"head", head},
                                   {"head topic", found->head_topic},
                                   {"head attempts", std::to_string(found->head_attempts)},
                                   {"next attempt", or_dash(found->next_attempt_at)},
                                   {"last error", found->last_error.value_or("-")},
                                   {"blocked since", or_dash(found->blocked_at)},
                                   {"owner", owner},
                                   {"lease until", or_dash(found->lease_until)}});
}

void change(const Globals& globals, const StreamArguments& arguments, const char* word,
            bool (WorkQueue::*call)(std::string_view)) {
  auto platform = globals.open();
  const bool changed = (queue_named(platform, arguments.queue).*call)(arguments.stream);
  if (globals.json) {
    const ordered_json answer{
        {"queue", arguments.queue}, {"stream", arguments.stream}, {word, changed}};
    std::cout << answer.dump() << '\n';
  } else if (changed) {
    std::cout << word << ' ' << arguments.stream << '\n';
  }
  if (changed) return;
  std::cerr << "the stream " << arguments.stream << " is not blocked\n";
  throw ExitCode{1};
}

void add_streams_list(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<StreamArguments>();
  auto& command =
      add_command(group, globals, "list", "List streams that have messages, ordered by name",
                  [&globals, arguments] { list(globals, *arguments); });
  add_queue_option(command, arguments->queue);
  command.add_flag("--blocked", arguments->blocked, "Only blocked streams");
  command.add_option("--limit", arguments->limit, "Maximum number of rows")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--start-after", arguments->start_after,
                     "The last stream of the previous page");
  command.add_flag("--json", globals.json, "Answer in JSON");
  allow_group(command, globals);
}

}  // namespace

void add_streams(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "streams", "Messages that are handled in order");
  add_streams_list(group, globals);
  const auto add = [&](const char* name, const char* description, auto run) {
    auto arguments = std::make_shared<StreamArguments>();
    auto& command = add_command(group, globals, name, description,
                                [&globals, arguments, run] { run(globals, *arguments); });
    command.add_option("STREAM", arguments->stream, "1 to 255 characters")->required();
    add_queue_option(command, arguments->queue);
    command.add_flag("--json", globals.json, "Answer in JSON");
  };
  add("show", "Show a stream and its first message", show_stream);
  add("resume", "Let a blocked stream retry its first message",
      [](const Globals& to, const StreamArguments& arguments) {
        change(to, arguments, "resumed", &WorkQueue::resume_stream);
      });
  add("skip", "Make the first message of a blocked stream a dead letter; the stream continues",
      [](const Globals& to, const StreamArguments& arguments) {
        change(to, arguments, "skipped", &WorkQueue::skip_stream);
      });
}

}  // namespace dovetail::cli
