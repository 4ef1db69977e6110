#include "dovetail/log.hpp"

namespace dovetail {
namespace {

class NullLogSink final : public LogSink {
 public:
  [[nodiscard]] bool enabled(LogLevel) const override { return false; }
  void write(const LogRecord&) override {}
};

}  // namespace

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warn";
    case LogLevel::error:
      return "error";
    case LogLevel::off:
      return "off";
  }
  return "off";
}

std::shared_ptr<LogSink> null_log_sink() {
  static const auto sink = std::make_shared<NullLogSink>();
  return sink;
}

bool Logger::enabled(LogLevel level) const noexcept {
  try {
    return sink_->enabled(level);
  } catch (...) {
    return false;
  }
}

void Logger::write(LogLevel level, std::string_view event,
                   std::initializer_list<LogField> fields) const noexcept {
  try {
    if (sink_->enabled(level)) sink_->write({level, event, {fields.begin(), fields.size()}});
  } catch (...) {
    // A failing sink must not fail the work that it reports on, and there is nowhere to report it.
  }
}

}  // namespace dovetail
