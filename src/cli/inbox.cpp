#include <iostream>

#include "cli/cli.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json;
using json::to_json_array;
using nlohmann::ordered_json;

constexpr std::size_t shown_id_characters = 60;

struct InboxArguments {
  std::string source;
  std::string id;
  std::string topic;
  std::string after;
  std::string before;
  std::string start_after_source;
  std::string start_after_id;
  std::string reason;
  double delay = 0;
  int limit = 100;
  double older_than = 0;
  bool all = false;
  bool dead_letters = false;

  [[nodiscard]] bool has_filter() const {
    return !source.empty() || !id.empty() || !topic.empty() || !after.empty() || !before.empty();
  }
  [[nodiscard]] InboxDeadLetterFilter filter() const {
    const auto if_given = [](const std::string& text) {
      return text.empty() ? std::nullopt : std::optional{text};
    };
    return {.source = if_given(source),
            .message_id = if_given(id),
            .topic = if_given(topic),
            .failed_after = parse_time_if_given("--after", after),
            .failed_before = parse_time_if_given("--before", before)};
  }
  /// The filter of a command that changes messages. Only --all selects all messages.
  [[nodiscard]] InboxDeadLetterFilter chosen() const {
    if (has_filter() == all) {
      throw std::invalid_argument(
          "select the messages: --source, --id, --topic, --after, --before, or --all");
    }
    return filter();
  }
};

// --- status

void inbox_status(const Globals& globals) {
  auto platform = globals.open();
  const auto counts = platform.inbox().counts();
  const auto& queue = counts.queue;
  if (globals.json) {
    std::cout << to_json(counts).dump(2) << '\n';
    return;
  }
  const auto shown = [&](std::int64_t count) {
    return std::to_string(count) + (count >= counts.counted_up_to ? "+" : "");
  };
  print_table({"SEEN", "PROCESSING", "OVERDUE", "PROCESSED", "DEAD LETTERS"},
              {{shown(counts.seen), shown(counts.processing), shown(counts.overdue),
                shown(counts.processed), shown(counts.dead_letters)}});
  std::cout << '\n';
  print_table({"QUEUE", "READY", "SCHEDULED", "IN PROGRESS", "DONE", "FAILED", "PAUSED"},
              {{"inbox", shown(queue.ready), shown(queue.scheduled), shown(queue.in_progress),
                shown(queue.done), shown(queue.failed), shown(queue.paused)}});
}

// --- dead letters, show

void dead_letters(const Globals& globals, const InboxArguments& arguments) {
  InboxPage page{.size = arguments.limit};
  if (arguments.start_after_source.empty() != arguments.start_after_id.empty()) {
    throw std::invalid_argument("--start-after-source and --start-after-id go together");
  }
  if (!arguments.start_after_source.empty()) {
    page.after_source = arguments.start_after_source;
    page.after_message_id = arguments.start_after_id;
  }
  const auto filter = arguments.filter();
  auto platform = globals.open();
  const auto entries = platform.inbox().dead_letters(filter, page);
  const bool full = entries.size() >= static_cast<std::size_t>(page.size);
  if (globals.json) {
    ordered_json answer{{"dead_letters", to_json_array(entries)}, {"next_start_after", nullptr}};
    if (full) {
      answer["next_start_after"] = {{"source", entries.back().source},
                                    {"id", entries.back().message_id}};
    }
    std::cout << answer.dump(2) << '\n';
    return;
  }
  if (entries.empty()) {
    std::cout << "no dead letters\n";
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(entries.size());
  for (const auto& entry : entries) {
    rows.push_back({entry.source, shortened(entry.message_id, shown_id_characters),
                    entry.topic.value_or("-"), std::to_string(entry.attempts),
                    std::to_string(entry.sightings), or_dash(entry.processed_at),
                    shortened(entry.last_error.value_or("-"), shown_error_characters)});
  }
  print_table({"SOURCE", "ID", "TOPIC", "ATTEMPTS", "SEEN", "GIVEN UP AT", "ERROR"}, rows);
  if (full) {
    std::cerr << "there may be more: --start-after-source '" << entries.back().source
              << "' --start-after-id '" << entries.back().message_id << "'\n";
  }
}

void show_received(const Globals& globals, const InboxArguments& arguments) {
  auto platform = globals.open();
  const auto entry = platform.inbox().find(arguments.source, arguments.id);
  if (!entry)
    throw std::runtime_error("there is no message " + arguments.id + " of the source " +
                             arguments.source);
  if (globals.json) {
    std::cout << to_json(*entry).dump(2) << '\n';
    return;
  }
  print_table({"FIELD", "VALUE"}, {{"source", entry->source},
                                   {"message_id", entry->message_id},
                                   {"status", std::string{to_string(entry->status)}},
                                   {"sightings", std::to_string(entry->sightings)},
                                   {"attempts", std::to_string(entry->attempts)},
                                   {"first_seen_at", to_string(entry->first_seen_at)},
                                   {"last_seen_at", to_string(entry->last_seen_at)},
                                   {"processed_at", or_dash(entry->processed_at)},
                                   {"lease_until", or_dash(entry->lease_until)},
                                   {"topic", entry->topic.value_or("-")},
                                   {"id", entry->id ? entry->id->to_string() : "-"},
                                   {"last_error", entry->last_error.value_or("-")}});
}

// --- replay, purge

void replay(const Globals& globals, const InboxArguments& arguments) {
  const auto filter = arguments.chosen();
  const ReplayOptions options{.reason = arguments.reason,
                              .delay = parse_seconds("--delay", arguments.delay, age_range)};
  auto platform = globals.open();
  print_effect(globals, {.word = "replayed", .count = platform.inbox().replay(filter, options)});
}

void purge_received(const Globals& globals, const InboxArguments& arguments, bool has_age) {
  if (has_age == arguments.dead_letters) {
    throw std::invalid_argument("give either --older-than or --dead-letters");
  }
  if (has_age && (arguments.has_filter() || arguments.all)) {
    throw std::invalid_argument(
        "--source, --id, --topic, --after, --before and --all go with --dead-letters");
  }
  if (arguments.dead_letters) {
    const auto filter = arguments.chosen();
    auto platform = globals.open();
    print_effect(globals, {.word = "purged", .count = platform.inbox().purge_dead_letters(filter)});
    return;
  }
  const auto age = std::chrono::ceil<std::chrono::seconds>(
      parse_seconds("--older-than", arguments.older_than, age_range));
  auto platform = globals.open();
  print_effect(globals, {.word = "purged", .count = platform.inbox().purge(age)});
}

// --- the options

/// Refuses an empty text, which a script may pass by mistake.
CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string{"must not be empty"} : std::string{};
          },
          ""};
}

void add_inbox_filter(CLI::App& command, InboxArguments& arguments) {
  command.add_option("--source", arguments.source, "Only messages of this source")
      ->check(not_empty());
  command.add_option("--id", arguments.id, "Only messages with this id")->check(not_empty());
  command.add_option("--topic", arguments.topic, "Only this topic of the queue")
      ->check(topic_rule());
  command.add_option("--after", arguments.after, "Only messages that failed at or after this time")
      ->check(time_rule());
  command.add_option("--before", arguments.before, "Only messages that failed before this time")
      ->check(time_rule());
}

void add_inbox_dead_letters(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<InboxArguments>();
  auto& command = add_command(group, globals, "dead-letters", "List dead letters by source and id",
                              [&globals, arguments] { dead_letters(globals, *arguments); });
  add_inbox_filter(command, *arguments);
  command.add_option("--limit", arguments->limit, "Maximum number of rows")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--start-after-source", arguments->start_after_source,
                     "The last source of the previous page");
  command.add_option("--start-after-id", arguments->start_after_id, "The id of that row");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_inbox_show(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<InboxArguments>();
  auto& command = add_command(group, globals, "show", "Show one message",
                              [&globals, arguments] { show_received(globals, *arguments); });
  command.add_option("SOURCE", arguments->source, "The source of the message")->required();
  command.add_option("ID", arguments->id, "The id that the source gave it")->required();
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_replay(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<InboxArguments>();
  auto& command = add_command(group, globals, "replay", "Replay dead letters",
                              [&globals, arguments] { replay(globals, *arguments); });
  add_inbox_filter(command, *arguments);
  command.add_flag("--all", arguments->all, "All dead letters");
  command.add_option("--reason", arguments->reason, "The reason; replaces their last errors")
      ->check(not_empty());
  command.add_option("--delay", arguments->delay, "Seconds until messages of the queue are ready");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_purge(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<InboxArguments>();
  auto has_age = std::make_shared<CLI::Option*>(nullptr);
  auto& command = add_command(group, globals, "purge",
                              "Delete old messages or dead letters; later deliveries count as new",
                              [&globals, arguments, has_age] {
                                purge_received(globals, *arguments, (*has_age)->count() > 0);
                              });
  *has_age = command.add_option(
      "--older-than", arguments->older_than,
      "Minimum age in seconds: since they were processed, given up or last seen");
  command.add_flag("--dead-letters", arguments->dead_letters,
                   "Delete dead letters of the guard and of the queue");
  add_inbox_filter(command, *arguments);
  command.add_flag("--all", arguments->all, "All dead letters");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace

void add_inbox(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "inbox", "Count, show, replay and purge received messages");
  auto& counting = add_command(group, globals, "status", "Count messages by state",
                               [&globals] { inbox_status(globals); });
  counting.add_flag("--json", globals.json, "Answer in JSON");
  add_inbox_dead_letters(group, globals);
  add_inbox_show(group, globals);
  add_replay(group, globals);
  add_purge(group, globals);
}

}  // namespace dovetail::cli
