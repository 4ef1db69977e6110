// Log records as lines of text: "info join.started store=… expected_steps=3".
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "dovetail/log.hpp"

namespace dovetail::testing {

class RecordedLines final : public LogSink {
 public:
  [[nodiscard]] bool enabled(LogLevel) const override { return true; }
  void write(const LogRecord& record) override {
    std::string line = std::string{to_string(record.level)} + " " + std::string{record.event};
    for (const auto& field : record.fields) {
      line += " " + std::string{field.name} + "=";
      std::visit(
          [&](const auto& value) {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
              line += value;
            } else {
              line += std::to_string(value);
            }
          },
          field.value);
    }
    std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  [[nodiscard]] std::vector<std::string> all() {
    std::lock_guard lock(mutex_);
    return lines_;
  }
  void clear() {
    std::lock_guard lock(mutex_);
    lines_.clear();
  }
  /// The number of lines of this event.
  [[nodiscard]] std::ptrdiff_t count(const std::string& event) {
    const auto lines = all();
    return std::ranges::count_if(lines, [&](const std::string& line) {
      const auto begin = line.find(' ') + 1;
      return line.substr(begin, line.find(' ', begin) - begin) == event;
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace dovetail::testing
