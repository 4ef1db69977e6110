// Logging: structured events, written to a sink that the user can replace.
//
// Guarantees
//   * A record has an event name and typed fields. It never contains payloads or secrets.
// Not guaranteed
//   * That a logged change took effect in a borrowed transaction, whose end Dovetail does not see.
//     Changes in transactions of Platform::begin() and of handlers are logged after the commit.
//
// Threads: a LogSink must accept concurrent calls.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace dovetail {

enum class LogLevel { debug, info, warn, error, off };

[[nodiscard]] std::string_view to_string(LogLevel level);

struct LogField {
  using Value = std::variant<bool, std::int64_t, double, std::string>;
  std::string_view name;
  Value value;

  LogField(std::string_view n, bool v) : name(n), value(v) {}
  LogField(std::string_view n, std::int64_t v) : name(n), value(v) {}
  LogField(std::string_view n, int v) : name(n), value(std::int64_t{v}) {}
  LogField(std::string_view n, std::size_t v) : name(n), value(static_cast<std::int64_t>(v)) {}
  LogField(std::string_view n, double v) : name(n), value(v) {}
  LogField(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
  LogField(std::string_view n, std::string_view v) : name(n), value(std::string{v}) {}
  LogField(std::string_view n, const char* v) : name(n), value(std::string{v}) {}
};

struct LogRecord {
  LogLevel level;
  std::string_view event;  ///< A stable name such as `outbox.enqueued`.
  std::span<const LogField> fields;
};

class LogSink {
 public:
  virtual ~LogSink() = default;
  [[nodiscard]] virtual bool enabled(LogLevel level) const = 0;
  virtual void write(const LogRecord& record) = 0;
};

/// Discards everything.
[[nodiscard]] std::shared_ptr<LogSink> null_log_sink();

/// Writes `event key=value …` lines to standard error through spdlog. Part of dovetail::dovetail.
[[nodiscard]] std::shared_ptr<LogSink> spdlog_log_sink(LogLevel level = LogLevel::info);

/// A cheap, copyable handle to a sink. Exceptions of the sink are ignored: logging never changes an
/// outcome.
class Logger {
 public:
  Logger() : Logger(null_log_sink()) {}
  explicit Logger(std::shared_ptr<LogSink> sink) : sink_(std::move(sink)) {}

  [[nodiscard]] bool enabled(LogLevel level) const noexcept;
  void write(LogLevel level, std::string_view event,
             std::initializer_list<LogField> fields) const noexcept;

 private:
  std::shared_ptr<LogSink> sink_;
};

}  // namespace dovetail
