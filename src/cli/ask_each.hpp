// Asks the databases of a group, several at the same time.
//
// A database that fails or gives no answer in time does not stop the others.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/group_file.hpp"

namespace dovetail::cli {

/// The call failed because of the database or its schema.
struct DatabaseFailure {
  std::string error;
  bool needs_migration = false;
};

/// Either `answer` or `failure` is set.
template <class Answer>
struct DatabaseAnswer {
  std::string key;
  std::optional<Answer> answer{};
  std::optional<DatabaseFailure> failure{};
};

/// Runs the tasks on threads, several at the same time. Calls `ended(index, in_time)` for each
/// task, on this thread, as it ends. A task that takes longer than `limit` is abandoned: its thread
/// continues, and `ended` gets false.
void run_tasks(const std::vector<std::function<void()>>& tasks,
               std::optional<std::chrono::milliseconds> limit,
               const std::function<void(std::size_t, bool)>& ended);

/// Ends a command on a group after its answer was printed. Prints each failure on standard error,
/// and throws ExitCode 1 if there are any. If threads were abandoned, the process exits here.
void finish_group(const Globals& globals,
                  const std::vector<std::pair<std::string, DatabaseFailure>>& failures);

[[nodiscard]] std::string no_answer_text(std::chrono::milliseconds limit);

/// Opens each database and calls `ask` with it. Returns the answers in the order of the file; bad
/// entries come last. `ended`, if given, gets each answer as soon as it arrives.
template <class Answer>
std::vector<DatabaseAnswer<Answer>> ask_each(
    const Globals& globals, const std::function<Answer(Platform&)>& ask,
    std::optional<std::chrono::milliseconds> limit,
    const std::function<void(const DatabaseAnswer<Answer>&)>& ended = {}) {
  const auto databases = read_group(globals);
  // Each task has its own place, which is read only after the task has ended.
  std::vector<std::shared_ptr<DatabaseAnswer<Answer>>> places;
  std::vector<std::function<void()>> tasks;
  for (const auto& entry : databases.good) {
    auto place = std::make_shared<DatabaseAnswer<Answer>>(DatabaseAnswer<Answer>{entry.key});
    tasks.emplace_back([entry, place, ask, options = options_of(globals, entry)] {
      try {
        auto platform = Platform::open(entry.url, options);
        place->answer = ask(platform);
      } catch (const SchemaMismatch& error) {
        place->failure = {error.what(), true};
      } catch (const std::exception& error) {
        place->failure = {error.what()};
      }
    });
    places.push_back(std::move(place));
  }
  std::vector<DatabaseAnswer<Answer>> answers(places.size());
  run_tasks(tasks, limit, [&](std::size_t index, bool in_time) {
    if (in_time) {
      answers[index] = *places[index];
    } else {
      answers[index] = {.key = databases.good[index].key,
                        .failure = DatabaseFailure{no_answer_text(*limit)}};
    }
    if (ended) ended(answers[index]);
  });
  for (const auto& each : databases.bad) {
    answers.push_back({.key = each.key, .failure = DatabaseFailure{each.error}});
    if (ended) ended(answers.back());
  }
  return answers;
}

template <class Answer>
void finish_group(const Globals& globals, const std::vector<DatabaseAnswer<Answer>>& answers) {
  std::vector<std::pair<std::string, DatabaseFailure>> failures;
  for (const auto& each : answers) {
    if (each.failure) failures.emplace_back(each.key, *each.failure);
  }
  finish_group(globals, failures);
}

/// {"databases": [{"key", "error", …}], "failed"}. `form` gives the fields of an answer.
template <class Answer>
nlohmann::ordered_json group_json(
    const std::vector<DatabaseAnswer<Answer>>& answers,
    const std::function<nlohmann::ordered_json(const Answer&)>& form) {
  auto list = nlohmann::ordered_json::array();
  std::size_t failed = 0;
  for (const auto& each : answers) {
    nlohmann::ordered_json row{{"key", each.key}, {"error", nullptr}};
    if (each.failure) {
      row["error"] = each.failure->error;
      ++failed;
    } else {
      row.update(form(*each.answer));
    }
    list.push_back(std::move(row));
  }
  return {{"databases", std::move(list)}, {"failed", failed}};
}

}  // namespace dovetail::cli
