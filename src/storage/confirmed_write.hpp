// Writes that report whether they changed anything, although they may run several times.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "storage/database.hpp"

namespace dovetail::storage {

/// Runs `run(session)` or `run(session, attempt)`, which returns whether it changed anything, in a
/// transaction of its own.
///
/// A run whose commit is in doubt may have taken effect. Then the next run finds nothing to change,
/// and the result is `confirm(session)`: whether the state is the one that the earlier run wanted.
/// The result of a run that certainly rolled back is dropped.
template <class SomeDatabase, class Run, class Confirm>
bool confirmed_write(SomeDatabase& database, WriteOptions options, const Run& run,
                     const Confirm& confirm) {
  bool may_have_changed = false;  // by a run whose commit is in doubt
  std::optional<bool> last;       // result of the last run; absent when its answer was lost
  int number = 1;
  options.repeatable = true;
  database.write(options, [&](WriteSession& session, const Attempt& attempt) {
    if (number != attempt.number && attempt.previous_in_doubt && last.value_or(true)) {
      may_have_changed = true;
    }
    number = attempt.number;
    last.reset();
    bool changed = false;
    if constexpr (std::is_invocable_v<const Run&, WriteSession&, const Attempt&>) {
      changed = run(session, attempt);
    } else {
      changed = run(session);
    }
    last = changed || (may_have_changed && confirm(session));
  });
  return last.value_or(false);
}

template <class SomeDatabase, class Run>
bool confirmed_write(SomeDatabase& database, const WriteOptions& options, const Run& run) {
  return confirmed_write(database, options, run, [](WriteSession&) { return true; });
}

/// Runs `run(session, attempt)`, which returns an answer if it changed anything, in a transaction
/// of its own. Returns the answer of the run that took effect; nothing if no run changed anything.
///
/// After a commit in doubt, the answer of that run is kept until a later run changes something
/// itself, which shows that the earlier one was rolled back.
template <class Answer, class SomeDatabase, class Run>
std::optional<Answer> confirmed_answer(SomeDatabase& database, WriteOptions options,
                                       const Run& run) {
  std::optional<Answer> doubtful;
  std::optional<Answer> last;
  int number = 1;
  options.repeatable = true;
  database.write(options, [&](WriteSession& session, const Attempt& attempt) {
    auto previous = std::exchange(last, std::nullopt);
    const bool is_again = std::exchange(number, attempt.number) != attempt.number;
    if (is_again && attempt.previous_in_doubt && previous) doubtful = std::move(previous);
    last = run(session, attempt);
    if (last) doubtful.reset();
  });
  return last ? last : doubtful;
}

}  // namespace dovetail::storage
