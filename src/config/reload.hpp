// Reads the configuration again while the process runs.
//
// Guarantees
//   * A configuration with mistakes changes nothing: the settings of before stay.
//   * A setting that a reload cannot change keeps its value, and is reported by name.
//   * The gauge `dovetail_config_reload_success` is 1 after the start and after a good reload, and
//     0 after a bad one.
//
// Threads: reload() is called by one thread at a time; the level of the log sink may be read by
// all.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "config/load.hpp"
#include "dovetail/metrics.hpp"

namespace dovetail::config {

/// A sink whose level can change.
class LevelSink final : public LogSink {
 public:
  LevelSink(LogLevel level, std::shared_ptr<LogSink> next);

  void set_level(LogLevel level) { level_ = level; }
  [[nodiscard]] bool enabled(LogLevel level) const override;
  void write(const LogRecord& record) override;

 private:
  std::atomic<LogLevel> level_;
  const std::shared_ptr<LogSink> next_;
};

class Reloader {
 public:
  /// `first` is the configuration with which the process started, read from `sources`.
  Reloader(Sources sources, Loaded first, Logger log);

  /// `apply` is called by reload() with the new settings. It changes what can be changed in a
  /// running process. It may throw std::exception, and then it has changed nothing: the reload has
  /// failed. At most one `apply` may throw, because those before it are not undone.
  void on_reload(std::function<void(const Settings&)> apply);
  /// `apply` is called after all of on_reload() have succeeded. It does not throw.
  void after_reload(std::function<void(const Settings&)> apply);
  /// Where the gauge goes. Sets it to 1.
  void report_to(Metrics metrics);

  /// Returns false when the configuration has mistakes, which are logged.
  bool reload();

 private:
  bool failed(const std::string& problem);
  void report_what_needs_a_restart(const Loaded& next) const;

  const Sources sources_;
  Loaded current_;
  Logger log_;
  Metrics metrics_;
  std::vector<std::function<void(const Settings&)>> applied_;
  std::vector<std::function<void(const Settings&)>> applied_last_;
};

}  // namespace dovetail::config
