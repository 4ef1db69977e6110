// The shared parts of the roles of one queue: its statements, the clock and the watchers.
#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/queue_watcher.hpp"
#include "sqlite/sql.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

struct QueueContext {
  const storage::StatementTexts& texts;
  const sql::Queue& sql;
  std::shared_ptr<Clock> clock;
  QueueWatchers watchers{};

  [[nodiscard]] Cursor run(Connection& connection, const storage::Statement& statement) const {
    return connection.run(texts, statement);
  }
  [[nodiscard]] WallTime now() const { return clock->wall(); }
};

}  // namespace dovetail::sqlite
