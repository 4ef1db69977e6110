// Commands on a group that print one table or one number for all databases.
#pragma once

#include <algorithm>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "cli/ask_each.hpp"

namespace dovetail::cli {

using TableCells = std::vector<std::string>;

/// How long a database may take to answer. Changes have no limit: they may take long.
inline constexpr std::chrono::milliseconds group_list_limit{60'000};

/// A table and a JSON object of each database's answer.
template <class Answer>
struct GroupTable {
  TableCells headings;  ///< Without the database.
  std::function<std::vector<TableCells>(const Answer&)> rows;
  std::function<nlohmann::ordered_json(const Answer&)> form;
  std::string empty;  ///< Printed if there are no rows.
};

template <class Answer>
void print_group_table(const std::vector<DatabaseAnswer<Answer>>& answers,
                       const GroupTable<Answer>& table) {
  std::vector<TableCells> rows;
  for (const auto& each : answers) {
    if (!each.answer) continue;
    for (auto& row : table.rows(*each.answer)) {
      row.insert(row.begin(), each.key);
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) {
    std::cout << table.empty << '\n';
    return;
  }
  auto headings = table.headings;
  headings.insert(headings.begin(), "DATABASE");
  print_table(headings, rows);
}

/// Asks each database, and prints the answers. Returns them for finish_group().
template <class Answer>
std::vector<DatabaseAnswer<Answer>> list_of_group(const Globals& globals,
                                                  const std::function<Answer(Platform&)>& ask,
                                                  const GroupTable<Answer>& table) {
  auto answers = ask_each<Answer>(globals, ask, group_list_limit);
  if (globals.json) {
    std::cout << group_json<Answer>(answers, table.form).dump(2) << '\n';
  } else {
    print_group_table(answers, table);
  }
  return answers;
}

/// Throws std::invalid_argument if `start_after` is given for several databases.
void require_one_database(const Globals& globals, bool start_after);

/// Prints the answer of the database, or those of the databases of a group. Returns the answer of a
/// single database.
template <class Answer>
std::optional<Answer> print_list(const Globals& globals,
                                 const std::function<Answer(Platform&)>& ask,
                                 const GroupTable<Answer>& table) {
  if (globals.has_group()) {
    finish_group(globals, list_of_group<Answer>(globals, ask, table));
    return std::nullopt;
  }
  auto platform = globals.open();
  auto answer = ask(platform);
  if (globals.json) {
    std::cout << table.form(answer).dump(2) << '\n';
    return answer;
  }
  const auto rows = table.rows(answer);
  if (rows.empty()) {
    std::cout << table.empty << '\n';
  } else {
    print_table(table.headings, rows);
  }
  return answer;
}

/// Makes a change in each database, and prints how many things changed, such as `set 3 in 5
/// databases`. Returns that number; call finish_group() afterwards.
struct GroupChange {
  std::size_t total = 0;
  std::vector<DatabaseAnswer<std::size_t>> answers{};
};
[[nodiscard]] GroupChange change_group(const Globals& globals, const std::string& word,
                                       const std::function<std::size_t(Platform&)>& change);

}  // namespace dovetail::cli
