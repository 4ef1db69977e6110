#include "cli/dead_letters.hpp"

#include <iostream>
#include <set>

#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json;

constexpr int dry_run_page = 10'000;

void print_letters(const std::vector<StoredMessage>& letters) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(letters.size());
  for (const auto& each : letters) rows.push_back(letter_row(each));
  print_table(letter_headings(), rows);
}

// --- list

void print_list(const std::vector<StoredMessage>& letters, bool full) {
  if (letters.empty()) {
    std::cout << "no dead letters\n";
    return;
  }
  print_letters(letters);
  if (full) {
    std::cerr << "there may be more: --start-after "
              << letters.back().message.message_id.to_string() << '\n';
  }
}

void list(const Globals& globals, const DeadLetterArguments& arguments) {
  if (globals.has_group()) return list_group_letters(globals, arguments);
  const auto filter = arguments.filter();
  const auto page = arguments.page();
  auto platform = globals.open();
  const auto letters = queue_named(platform, arguments.queue).dead_letters(filter, page);
  const bool full = letters.size() >= static_cast<std::size_t>(page.size);
  if (globals.json) {
    std::cout << json::dead_letter_page(letters, full).dump(2) << '\n';
  } else {
    print_list(letters, full);
  }
}

// --- summary

void print_summary(const DeadLetterSummary& summary) {
  const auto rows = summary_rows(summary);
  if (rows.empty()) {
    std::cout << "no dead letters\n";
  } else {
    print_table(summary_headings(), rows);
  }
  if (summary.letters_cut) {
    std::cerr << "only the newest " << summary.letters_read
              << " dead letters were counted: --read reads more\n";
  }
  if (summary.groups_cut) std::cerr << "only the largest groups are shown: --limit shows more\n";
}

void summary(const Globals& globals, const DeadLetterArguments& arguments,
             const DeadLetterSummaryLimits& limits) {
  if (globals.has_group()) return summarize_group_letters(globals, arguments, limits);
  const auto filter = arguments.filter();
  auto platform = globals.open();
  const auto found = queue_named(platform, arguments.queue).dead_letter_summary(filter, limits);
  if (globals.json) {
    std::cout << to_json(found).dump(2) << '\n';
  } else {
    print_summary(found);
  }
}

// --- show

void show(const Globals& globals, const DeadLetterArguments& arguments) {
  if (globals.has_group()) return show_group_letter(globals, arguments);
  const auto id = parse_id<MessageId>("ID", arguments.id);
  auto platform = globals.open();
  const auto stored = queue_named(platform, arguments.queue).find(id);
  if (!stored) {
    throw std::runtime_error("there is no message " + id.to_string() + " in the queue " +
                             arguments.queue);
  }
  if (!globals.json) {
    print_message(*stored);
    return;
  }
  auto answer = to_json(*stored);
  answer["failures"] = json::to_json_array(stored->failures);
  answer["payload"] = stored->message.payload;
  std::cout << answer.dump(2) << '\n';
}

// --- replay and purge

void print_dry_run(const Globals& globals, const std::string& verb, const Concerned& found) {
  if (globals.json) {
    std::cout << json::dry_run_answer(verb, found.count, found.first).dump(2) << '\n';
    return;
  }
  if (found.count > 0) print_letters(found.first);
  std::cout << "would " << verb << ' ' << found.count << '\n';
  if (found.count > found.first.size()) {
    std::cerr << "only the first " << found.first.size() << " are shown\n";
  }
}

void change_letters(const Globals& globals, const DeadLetterArguments& arguments,
                    const LetterChange& change) {
  if (globals.has_group()) return change_group_letters(globals, arguments, change);
  auto platform = globals.open();
  auto& queue = queue_named(platform, arguments.queue);
  if (arguments.dry_run) {
    return print_dry_run(globals, change.name, concerned(queue, arguments));
  }
  Effect effect{.word = change.past, .count = change.apply(queue), .why_not = why_unchanged};
  if (!arguments.ids.empty()) effect.asked = arguments.ids.size();
  print_effect(globals, effect);
}

void replay(const Globals& globals, const DeadLetterArguments& arguments) {
  const auto ids = arguments.selected_ids();
  const auto apply = [ids, filter = arguments.filter()](WorkQueue& queue) {
    return ids.empty() ? queue.replay(filter) : queue.replay(ids);
  };
  change_letters(globals, arguments, {"replay", "replayed", apply});
}

void purge(const Globals& globals, const DeadLetterArguments& arguments) {
  const auto ids = arguments.selected_ids();
  const auto apply = [ids, filter = arguments.filter()](WorkQueue& queue) {
    return ids.empty() ? queue.purge_dead_letters(filter) : queue.purge_dead_letters(ids);
  };
  change_letters(globals, arguments, {"purge", "purged", apply});
}

// --- the options

void add_filter(CLI::App& command, DeadLetterArguments& arguments) {
  add_queue_option(command, arguments.queue);
  command.add_option("--topic", arguments.topic, "Only this topic")->check(topic_rule());
  command.add_option("--after", arguments.after, "Only messages that failed at or after this time")
      ->check(time_rule());
  command.add_option("--before", arguments.before, "Only messages that failed before this time")
      ->check(time_rule());
}

void add_list(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<DeadLetterArguments>();
  auto& command = add_command(group, globals, "list", "List dead letters by id",
                              [&globals, arguments] { list(globals, *arguments); });
  allow_group(command, globals);
  add_filter(command, *arguments);
  command
      .add_option("--limit", arguments->limit,
                  "Maximum number of rows; with --group: of each database")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--start-after", arguments->start_after, "The last id of the previous page");
  command.add_flag("--newest", arguments->newest, "Newest messages first");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_summary(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<DeadLetterArguments>();
  auto limits = std::make_shared<DeadLetterSummaryLimits>();
  auto& command =
      add_command(group, globals, "summary", "Count dead letters by topic and error",
                  [&globals, arguments, limits] { summary(globals, *arguments, *limits); });
  allow_group(command, globals);
  add_filter(command, *arguments);
  command.add_option("--limit", limits->groups, "Show this many groups at most, the largest first")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command
      .add_option("--read", limits->letters,
                  "Read this many dead letters at most, the newest first")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_show(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<DeadLetterArguments>();
  auto& command =
      add_command(group, globals, "show", "Show one message in any state, with its payload",
                  [&globals, arguments] { show(globals, *arguments); });
  allow_group(command, globals);
  command.add_option("ID", arguments->id, "The message's UUID")->required();
  add_queue_option(command, arguments->queue);
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_change(CLI::App& group, Globals& globals, const std::string& name,
                const std::string& description,
                void (*run)(const Globals&, const DeadLetterArguments&)) {
  auto arguments = std::make_shared<DeadLetterArguments>();
  auto& command = add_command(group, globals, name, description,
                              [&globals, arguments, run] { run(globals, *arguments); });
  allow_group(command, globals);
  command.add_option("ID", arguments->ids, "The messages' UUIDs");
  add_filter(command, *arguments);
  command.add_flag("--all", arguments->all, "All dead letters");
  command.add_flag("--dry-run", arguments->dry_run,
                   "Show which dead letters would change, and change nothing");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void print_failures(const std::vector<FailedAttempt>& failures) {
  if (failures.empty()) return;
  std::vector<std::vector<std::string>> rows;
  rows.reserve(failures.size());
  for (const auto& each : failures) {
    rows.push_back({std::to_string(each.attempt), to_string(each.at),
                    std::string{to_string(each.kind)}, each.error.value_or("-"),
                    each.owner ? each.owner->to_string() : "-"});
  }
  std::cout << '\n';
  print_table({"ATTEMPT", "AT", "KIND", "ERROR", "OWNER"}, rows);
}

}  // namespace

DeadLetterFilter DeadLetterArguments::filter() const {
  DeadLetterFilter filter{.failed_after = parse_time_if_given("--after", after),
                          .failed_before = parse_time_if_given("--before", before)};
  if (!topic.empty()) filter.topic = topic;
  return filter;
}

DeadLetterPage DeadLetterArguments::page() const {
  DeadLetterPage page{.size = limit, .newest_first = newest};
  if (!start_after.empty()) page.after = parse_id<MessageId>("--start-after", start_after);
  return page;
}

std::vector<MessageId> DeadLetterArguments::selected_ids() const {
  const int ways =
      static_cast<int>(!ids.empty()) + static_cast<int>(has_filter()) + static_cast<int>(all);
  if (ways == 0)
    throw std::invalid_argument(
        "select the dead letters: IDs, --topic, --after, --before, or --all");
  if (ways > 1) {
    throw std::invalid_argument("give either IDs, or --topic, --after and --before, or --all");
  }
  std::vector<MessageId> selected;
  for (const auto& text : ids) {
    if (text == "all") throw std::invalid_argument("for all dead letters write --all");
    selected.push_back(parse_id<MessageId>("ID", text));
  }
  return selected;
}

void Concerned::add(StoredMessage letter) {
  ++count;
  if (first.size() < dry_run_shown) first.push_back(std::move(letter));
}

Concerned concerned(WorkQueue& queue, const DeadLetterArguments& arguments) {
  const auto ids = arguments.selected_ids();
  Concerned found;
  for (const auto& id : std::set<MessageId>(ids.begin(), ids.end())) {
    auto letter = queue.find(id);
    if (letter && letter->status == MessageStatus::failed) found.add(std::move(*letter));
  }
  if (!ids.empty()) return found;
  const auto filter = arguments.filter();
  DeadLetterPage page{.size = dry_run_page};
  for (;;) {
    auto letters = queue.dead_letters(filter, page);
    const bool last = letters.size() < static_cast<std::size_t>(dry_run_page);
    if (!letters.empty()) page.after = letters.back().message.message_id;
    for (auto& letter : letters) found.add(std::move(letter));
    if (last) return found;
  }
}

const std::vector<std::string>& letter_headings() {
  static const std::vector<std::string> headings{"MESSAGE", "TOPIC", "ATTEMPTS", "FAILED AT",
                                                 "ERROR"};
  return headings;
}

std::vector<std::string> letter_row(const StoredMessage& letter) {
  return {letter.message.message_id.to_string(), letter.message.topic,
          std::to_string(letter.message.attempts), or_dash(letter.processed_at),
          shortened(letter.last_error.value_or("-"), shown_error_characters)};
}

const std::vector<std::string>& summary_headings() {
  static const std::vector<std::string> headings{"COUNT", "TOPIC", "ERROR", "OLDEST", "NEWEST"};
  return headings;
}

std::vector<std::vector<std::string>> summary_rows(const DeadLetterSummary& summary) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(summary.groups.size());
  for (const auto& each : summary.groups) {
    rows.push_back({std::to_string(each.count), each.topic,
                    shortened(each.error.value_or("-"), shown_error_characters),
                    to_string(each.oldest), to_string(each.newest)});
  }
  return rows;
}

void print_message(const StoredMessage& stored) {
  const auto& message = stored.message;
  std::vector<std::vector<std::string>> rows{
      {"message_id", message.message_id.to_string()},
      {"topic", message.topic},
      {"status", std::string{to_string(stored.status)}},
      {"correlation_id", message.correlation_id.value_or("-")},
      {"unique_key", stored.unique_key.value_or("-")},
      {"priority", std::to_string(message.priority)},
      {"created_at", to_string(message.created_at)},
      {"due_at", or_dash(message.due_at)},
      {"expires_at", or_dash(message.expires_at)},
      {"attempts", std::to_string(message.attempts)},
      {"past_attempts", std::to_string(stored.past_attempts)},
      {"next_attempt_at", or_dash(stored.next_attempt_at)},
      {"processed_at", or_dash(stored.processed_at)},
      {"processed_by", stored.processed_by ? stored.processed_by->to_string() : "-"},
      {"last_error", stored.last_error.value_or("-")}};
  for (const auto& [name, value] : message.headers) rows.push_back({"header " + name, value});
  print_table({"FIELD", "VALUE"}, rows);
  print_failures(stored.failures);
  std::cout << '\n' << message.payload << '\n';
}

void add_dead_letters(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "dead-letters",
                          "List, count, replay and purge messages that failed for good");
  allow_group(group, globals);
  add_list(group, globals);
  add_summary(group, globals);
  add_show(group, globals);
  add_change(group, globals, "replay", "Make dead letters ready again", replay);
  add_change(group, globals, "purge", "Delete dead letters", purge);
}

}  // namespace dovetail::cli
