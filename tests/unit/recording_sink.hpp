// A log sink that keeps its records for tests.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dovetail/log.hpp"

namespace dovetail::testing {

class RecordingSink final : public LogSink {
 public:
  struct Record {
    LogLevel level;
    std::string event;
    std::map<std::string, LogField::Value> fields;
  };

  explicit RecordingSink(LogLevel lowest = LogLevel::debug) : lowest_(lowest) {}

  [[nodiscard]] bool enabled(LogLevel level) const override { return level >= lowest_; }

  void write(const LogRecord& record) override {
    Record kept{record.level, std::string{record.event}, {}};
    for (const auto& field : record.fields) kept.fields.emplace(field.name, field.value);
    std::lock_guard lock(mutex_);
    records_.push_back(std::move(kept));
  }

  [[nodiscard]] std::vector<Record> records() const {
    std::lock_guard lock(mutex_);
    return records_;
  }

 private:
  LogLevel lowest_;
  mutable std::mutex mutex_;
  std::vector<Record> records_;
};

}  // namespace dovetail::testing
