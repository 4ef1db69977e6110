#include "cli/long_run.hpp"

#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

namespace dovetail::cli {
namespace {

constexpr SecondsRange poll_range{std::chrono::milliseconds{1}, std::chrono::hours{1}};
constexpr SecondsRange group_poll_range{std::chrono::milliseconds{500}, std::chrono::hours{1}};

bool reloads(const Globals& globals, bool always) {
  return always || !globals.loaded_from.file.empty();
}

[[noreturn]] void end_at_limit(std::chrono::milliseconds limit, const std::string& reason) {
  std::cerr << "dovetail: " << no_answer_within(limit, reason) << '\n';
  std::_Exit(1);
}

}  // namespace

/// Keeps the reason of the last connection attempt that failed, and passes all records on.
class LongRun::ConnectErrors final : public LogSink {
 public:
  explicit ConnectErrors(std::shared_ptr<LogSink> next) : next_(std::move(next)) {}

  [[nodiscard]] bool enabled(LogLevel level) const override {
    return level >= LogLevel::warn || next_->enabled(level);
  }
  void write(const LogRecord& record) override {
    if (record.event == "storage.reconnect") note(record);
    if (next_->enabled(record.level)) next_->write(record);
  }
  [[nodiscard]] std::string last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  void note(const LogRecord& record) {
    for (const auto& field : record.fields) {
      if (field.name != "error") continue;
      const std::lock_guard lock(mutex_);
      last_ = std::get<std::string>(field.value);
    }
  }

  std::shared_ptr<LogSink> next_;
  mutable std::mutex mutex_;
  std::string last_;
};

std::string no_answer_within(std::chrono::milliseconds limit, const std::string& reason) {
  std::ostringstream text;
  text << "the database gave no answer within " << std::chrono::duration<double>(limit).count()
       << " seconds";
  if (!reason.empty()) text << ": " << reason;
  return text.str();
}

std::string LongRun::connect_error() const {
  return connect_errors_ ? connect_errors_->last() : std::string{};
}

LongRun::LongRun(StopSignals::More more) : signals_(more) {
  ::signal(SIGPIPE, SIG_IGN);
}

LongRun::LongRun(const Globals& globals, bool always_reload)
    : LongRun({.hang_up_even_if_ignored = reloads(globals, always_reload)}) {
  if (!reloads(globals, always_reload)) return;
  reloader_.emplace(globals.loaded_from, globals.loaded, Logger{globals.log_sink});
  reloader_->after_reload([sink = globals.log_sink](const config::Settings& settings) {
    sink->set_level(settings.log.level);
  });
}

std::optional<int> LongRun::wait(std::optional<std::chrono::milliseconds> timeout,
                                 const std::stop_token& stop) {
  auto signal = signals_.wait(timeout, stop);
  while (signal == SIGHUP && reloader_) {
    reloader_->reload();
    if (timeout) return std::nullopt;
    signal = signals_.wait(timeout, stop);
  }
  return signal;
}

Platform LongRun::open(const Globals& globals, PlatformOptions options,
                       std::optional<std::chrono::milliseconds> limit) {
  connect_errors_ = std::make_shared<ConnectErrors>(options.log_sink);
  options.log_sink = connect_errors_;
  const std::jthread watcher([&](const std::stop_token& done) {
    auto signal = signals_.wait_for_end(limit, done);
    // There is nothing to reload yet.
    while (signal == SIGHUP && reloader_) signal = signals_.wait_for_end(limit, done);
    if (signal) std::_Exit(exit_code_of_signal(*signal));
    if (!done.stop_requested() && limit) end_at_limit(*limit, connect_error());
  });
  return Platform::open(globals.database, std::move(options));
}

void LongRunArguments::add_to(CLI::App& command, const std::string& polls) {
  command.add_option("--poll", poll_seconds, polls)->default_str("0.5");
  command.add_option(
      "--idle-poll", idle_poll_seconds,
      "Seconds between two polls while there is nothing to do, at most; 5 if absent, "
      "30 with --group");
  command.add_flag("-q,--quiet", quiet, "Print no description of the work at the start");
}

void LongRunArguments::set_polls(WorkerOptions& worker) const {
  if (poll_seconds) worker.poll_interval = parse_seconds("--poll", *poll_seconds, poll_range);
  if (idle_poll_seconds)
    worker.idle_poll_interval = parse_seconds("--idle-poll", *idle_poll_seconds, poll_range);
  worker.idle_poll_interval = std::max(worker.idle_poll_interval, worker.poll_interval);
}

void LongRunArguments::set_polls(GroupOptions& group) const {
  set_polls(group.database.worker);
  if (idle_poll_seconds)
    group.max_poll_interval = parse_seconds("--idle-poll", *idle_poll_seconds, group_poll_range);
}

}  // namespace dovetail::cli
