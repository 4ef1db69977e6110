// Writes that answer whether they changed anything, although they may run several times.
#pragma once

#include <optional>

#include "dovetail/error.hpp"
#include "storage/database.hpp"

namespace dovetail::storage {

/// Runs `run(session)`, which answers whether it changed anything, in a transaction of its own.
///
/// A run whose commit is in doubt may have taken effect. Then the next run finds nothing to change,
/// and the answer is `confirm(session)`: whether the state is what the run before wanted. An answer
/// of a run that certainly rolled back is forgotten.
template <class SomeDatabase, class Run, class Confirm>
bool confirmed_write(SomeDatabase& database, WriteOptions options, const Run& run,
                     const Confirm& confirm) {
  std::optional<bool> changed;
  bool in_doubt = false;
  options.repeatable = true;
  options.on_retry = [&](const Error& error) {
    // Without an answer it is the answer itself that was lost.
    if (error.is_in_doubt() && changed.value_or(true)) in_doubt = true;
  };
  database.write(options, [&](WriteSession& session) {
    changed.reset();
    const bool now = run(session);
    changed = now || (in_doubt && confirm(session));
  });
  return changed.value_or(false);
}

template <class SomeDatabase, class Run>
bool confirmed_write(SomeDatabase& database, const WriteOptions& options, const Run& run) {
  return confirmed_write(database, options, run, [](WriteSession&) { return true; });
}

}  // namespace dovetail::storage
