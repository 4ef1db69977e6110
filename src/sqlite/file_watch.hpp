// Detects writes to a file, and the queues in which messages may be due earlier than before.
//
// Threads: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/sql.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class FileWatch {
 public:
  /// `busy_timeout` is SQLite's own limit, by the system's clock.
  FileWatch(const std::string& path, const storage::StatementTexts& texts, const Clock& clock,
            std::chrono::milliseconds busy_timeout);

  /// Returns whether this or another process has committed a transaction since the last call.
  [[nodiscard]] bool has_changed();

  /// Returns the queues that have a newer message, or an earlier due time, than at the last call.
  /// Returns timers and jobs only if their next due time has changed.
  std::vector<std::string_view> look();

 private:
  struct Messages {
    std::string_view queue;
    const storage::Statement* statement;
    std::int64_t newest = 0;
    std::optional<WallTime> due{};
  };
  struct Times {
    std::string_view queue;
    int column;
    std::optional<WallTime> due{};
  };
  void look_at_messages(std::vector<std::string_view>& queues);
  void look_at_events(std::vector<std::string_view>& queues);
  void look_at_times(std::vector<std::string_view>& queues);

  const storage::StatementTexts& texts_;
  const Clock& clock_;
  std::unique_ptr<Connection> connection_;
  std::int64_t version_;
  std::vector<Messages> messages_;
  std::vector<Times> times_;
  std::int64_t last_event_ = 0;
};

}  // namespace dovetail::sqlite
