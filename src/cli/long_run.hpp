// The start of a command that runs until a signal ends it: lock, schedule, work.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cli/cli.hpp"
#include "cli/stop_signals.hpp"

namespace dovetail::cli {

/// The text for a database that gave no answer within `limit`. `reason`: why the last connection
/// attempt failed; empty if none did.
[[nodiscard]] std::string no_answer_within(std::chrono::milliseconds limit,
                                           const std::string& reason);

/// Construct it before any thread. From then on signals() receives the signals, and a broken pipe
/// is an error of the write.
class LongRun {
 public:
  /// With `and_suspend`, signals() reports SIGTSTP (Ctrl-Z) too.
  explicit LongRun(bool and_suspend = false) : LongRun({.suspend = and_suspend}) {}
  /// For a process that reads its configuration again at SIGHUP; see wait(). Without a
  /// configuration file, SIGHUP ends the process, unless `always_reload`.
  explicit LongRun(const Globals& globals, bool always_reload = false);

  /// Platform::open(). While it waits for a server that does not answer, a signal ends this process
  /// with the exit code of that signal, and `limit` ends it with a message and exit code 1.
  [[nodiscard]] Platform open(const Globals& globals, PlatformOptions options,
                              std::optional<std::chrono::milliseconds> limit = {});

  [[nodiscard]] StopSignals& signals() { return signals_; }
  /// Null if SIGHUP ends this process.
  [[nodiscard]] config::Reloader* reloader() { return reloader_ ? &*reloader_ : nullptr; }
  /// Returns the signal that ends this process. Meanwhile, reloads the configuration at SIGHUP.
  /// Returns nullopt after `timeout`, if given, which a reload ends, too, or when `stop` is
  /// requested.
  [[nodiscard]] std::optional<int> wait(std::optional<std::chrono::milliseconds> timeout,
                                        const std::stop_token& stop = {});
  /// Why the last connection attempt of the Platform failed. Empty if none did.
  [[nodiscard]] std::string connect_error() const;

 private:
  class ConnectErrors;
  explicit LongRun(StopSignals::More more);

  StopSignals signals_;
  std::optional<config::Reloader> reloader_;
  std::shared_ptr<ConnectErrors> connect_errors_;
};

/// The options for poll intervals, which override the configuration, and for the line that is
/// printed at the start.
struct LongRunArguments {
  std::optional<double> poll_seconds;
  std::optional<double> idle_poll_seconds;
  bool quiet = false;

  void add_to(CLI::App& command, const std::string& polls);
  /// Throws std::out_of_range when --poll or --idle-poll is out of range.
  void set_polls(WorkerOptions& worker) const;
  /// The same for a group.
  void set_polls(GroupOptions& group) const;
};

}  // namespace dovetail::cli
