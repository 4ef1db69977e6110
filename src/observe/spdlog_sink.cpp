#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

#include "dovetail/log.hpp"

namespace dovetail {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

/// Returns `text` as one word. Text that could be read as several words is quoted, and its line
/// breaks and quotes are escaped.
std::string quoted_if_needed(const std::string& text) {
  if (!text.empty() && text.find_first_of(" =\"\n\r\t\\") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\r') {
      quoted += "\\r";
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string shown(const LogField::Value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>) {
          return quoted_if_needed(held);
        } else {
          return fmt::format("{}", held);
        }
      },
      value);
}

class SpdlogSink final : public LogSink {
 public:
  explicit SpdlogSink(LogLevel level)
      : logger_("dovetail", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()) {
    logger_.set_level(to_spdlog(level));
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %^%l%$ %n %v");
  }
  [[nodiscard]] bool enabled(LogLevel level) const override {
    return level != LogLevel::off && logger_.should_log(to_spdlog(level));
  }
  void write(const LogRecord& record) override {
    std::string line{record.event};
    for (const auto& field : record.fields)
      line += fmt::format(" {}={}", field.name, shown(field.value));
    logger_.log(to_spdlog(record.level), line);
  }

 private:
  spdlog::logger logger_;
};

}  // namespace

std::shared_ptr<LogSink> spdlog_log_sink(LogLevel level) {
  return std::make_shared<SpdlogSink>(level);
}

}  // namespace dovetail
