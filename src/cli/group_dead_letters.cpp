// `dovetail dead-letters …` with --group.
#include <algorithm>
#include <iostream>

#include "cli/ask_each.hpp"
#include "cli/dead_letters.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json;
using nlohmann::ordered_json;
using Letters = std::vector<StoredMessage>;
using LetterTexts = std::vector<std::string>;

/// How long a database may take to answer. Changes have no limit: they may take long.
constexpr std::chrono::milliseconds letters_limit{60'000};

LetterTexts after_key(const std::string& key, LetterTexts cells) {
  cells.insert(cells.begin(), key);
  return cells;
}

void print_keyed_table(const LetterTexts& headings, const std::vector<LetterTexts>& rows) {
  if (!rows.empty()) print_table(after_key("DATABASE", headings), rows);
}

// --- list

void print_group_list(const std::vector<DatabaseAnswer<Letters>>& answers, std::size_t limit) {
  std::vector<LetterTexts> rows;
  for (const auto& each : answers) {
    if (!each.answer) continue;
    for (const auto& letter : *each.answer) rows.push_back(after_key(each.key, letter_row(letter)));
  }
  print_keyed_table(letter_headings(), rows);
  if (rows.empty()) std::cout << "no dead letters\n";
  for (const auto& each : answers) {
    if (!each.answer || each.answer->size() < limit) continue;
    std::cerr << "there may be more: --only " << each.key << " --start-after "
              << each.answer->back().message.message_id.to_string() << '\n';
  }
}

// --- replay and purge

void dry_run_group(const Globals& globals, const DeadLetterArguments& arguments,
                   const std::string& verb) {
  const auto answers = ask_each<Concerned>(
      globals,
      [arguments](Platform& platform) {
        return concerned(queue_named(platform, arguments.queue), arguments);
      },
      letters_limit);
  if (globals.json) {
    const auto form = [&](const Concerned& found) {
      return json::dry_run_answer(verb, found.count, found.first);
    };
    std::cout << group_json<Concerned>(answers, form).dump(2) << '\n';
    return finish_group(globals, answers);
  }
  std::vector<LetterTexts> rows;
  std::size_t total = 0;
  for (const auto& each : answers) {
    if (!each.answer) continue;
    total += each.answer->count;
    for (const auto& letter : each.answer->first)
      rows.push_back(after_key(each.key, letter_row(letter)));
  }
  print_keyed_table(letter_headings(), rows);
  std::cout << "would " << verb << ' ' << total << '\n';
  if (total > rows.size()) {
    std::cerr << "only the first " << dry_run_shown << " of each database are shown\n";
  }
  finish_group(globals, answers);
}

void print_change_total(const Globals& globals,
                        const std::vector<DatabaseAnswer<std::size_t>>& answers,
                        const std::string& past, std::size_t total,
                        std::optional<std::size_t> asked) {
  if (globals.json) {
    const auto form = [&](const std::size_t& count) { return ordered_json{{past, count}}; };
    auto answer = group_json<std::size_t>(answers, form);
    answer[past] = total;
    if (asked) answer["asked"] = *asked;
    std::cout << answer.dump(2) << '\n';
  } else {
    std::cout << past << ' ' << total;
    if (asked) std::cout << " of " << *asked;
    std::cout << " in " << count_of_databases(answers.size()) << '\n';
  }
}

}  // namespace

void list_group_letters(const Globals& globals, const DeadLetterArguments& arguments) {
  const auto filter = arguments.filter();
  const auto page = arguments.page();
  if (page.after && read_group(globals).good.size() != 1) {
    throw std::invalid_argument(
        "--start-after is an id of one database: name that database with --only KEY");
  }
  const auto ask = [=, queue = arguments.queue](Platform& platform) {
    return queue_named(platform, queue).dead_letters(filter, page);
  };
  const auto answers = ask_each<Letters>(globals, ask, letters_limit);
  const auto limit = static_cast<std::size_t>(page.size);
  if (globals.json) {
    const auto form = [&](const Letters& letters) {
      return json::dead_letter_page(letters, letters.size() >= limit);
    };
    std::cout << group_json<Letters>(answers, form).dump(2) << '\n';
  } else {
    print_group_list(answers, limit);
  }
  finish_group(globals, answers);
}

void summarize_group_letters(const Globals& globals, const DeadLetterArguments& arguments,
                             const DeadLetterSummaryLimits& limits) {
  const auto filter = arguments.filter();
  const auto ask = [=, queue = arguments.queue](Platform& platform) {
    return queue_named(platform, queue).dead_letter_summary(filter, limits);
  };
  const auto answers = ask_each<DeadLetterSummary>(globals, ask, letters_limit);
  if (globals.json) {
    const auto form = [](const DeadLetterSummary& summary) { return to_json(summary); };
    std::cout << group_json<DeadLetterSummary>(answers, form).dump(2) << '\n';
    return finish_group(globals, answers);
  }
  std::vector<LetterTexts> rows;
  for (const auto& each : answers) {
    if (!each.answer) continue;
    for (const auto& row : summary_rows(*each.answer)) rows.push_back(after_key(each.key, row));
    if (each.answer->letters_cut || each.answer->groups_cut)
      std::cerr << each.key << ": not everything is shown; --read and --limit show more\n";
  }
  print_keyed_table(summary_headings(), rows);
  if (rows.empty()) std::cout << "no dead letters\n";
  finish_group(globals, answers);
}

void show_group_letter(const Globals& globals, const DeadLetterArguments& arguments) {
  using Found = std::optional<StoredMessage>;
  const auto id = parse_id<MessageId>("ID", arguments.id);
  const auto ask = [id, queue = arguments.queue](Platform& platform) -> Found {
    return queue_named(platform, queue).find(id);
  };
  const auto answers = ask_each<Found>(globals, ask, letters_limit);
  const auto found =
      std::ranges::find_if(answers, [](const auto& each) { return each.answer && *each.answer; });
  if (found == answers.end()) {
    std::cerr << "dovetail: there is no message " << id.to_string() << " in the queue "
              << arguments.queue << " of a database that answered\n";
    finish_group(globals, answers);
    throw ExitCode{1};
  }
  const auto& stored = **found->answer;
  if (globals.json) {
    ordered_json answer{{"key", found->key}};
    answer.update(to_json(stored));
    answer["failures"] = json::to_json_array(stored.failures);
    answer["payload"] = stored.message.payload;
    std::cout << answer.dump(2) << '\n';
  } else {
    std::cout << "database " << found->key << "\n\n";
    print_message(stored);
  }
  finish_group(globals, std::vector<DatabaseAnswer<Found>>{*found});
}

void change_group_letters(const Globals& globals, const DeadLetterArguments& arguments,
                          const LetterChange& change) {
  if (arguments.dry_run) return dry_run_group(globals, arguments, change.name);
  const auto ask = [apply = change.apply, queue = arguments.queue](Platform& platform) {
    return apply(queue_named(platform, queue));
  };
  std::size_t total = 0;
  const auto print = [&](const DatabaseAnswer<std::size_t>& each) {
    if (!each.answer) return;
    total += *each.answer;
    if (!globals.json && *each.answer > 0)
      std::cout << each.key << "  " << change.past << ' ' << *each.answer << std::endl;
  };
  const auto answers = ask_each<std::size_t>(globals, ask, std::nullopt, print);
  std::optional<std::size_t> asked;
  if (!arguments.ids.empty()) asked = arguments.ids.size();
  print_change_total(globals, answers, change.past, total, asked);
  if (asked && total < *asked) {
    std::cerr << "dovetail: " << (total == 0 ? "nothing" : "not everything") << " was "
              << change.past << ": " << why_unchanged << '\n';
  }
  finish_group(globals, answers);
  if (asked && total == 0) throw ExitCode{1};
}

}  // namespace dovetail::cli
