// Dovetail on one database: where everything starts.
//
//   auto platform = dovetail::Platform::open("sqlite:orders.db", {.deploy_schema = true});
//
// A URL is `sqlite:<path>` or `postgresql://…` (anything libpq takes as a URL).
//
// Guarantees
//   * Opening checks the schema: one that is missing, old or newer than this library is a SchemaMismatch that
//   names the
//     command to run. With `deploy_schema`, what is missing is created first, safely also by many processes
//     at once.
//   * No secret of the URL appears in a log line or an error.
//
// Threads: a Platform may be shared between threads. Transactions must end before it is destroyed. After
// fork(), the child must open its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/log.hpp"
#include "dovetail/outbox.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

struct PlatformOptions {
  /// Where Dovetail's tables live: a PostgreSQL schema, or the prefix of SQLite's table names.
  std::string schema = "infra";
  /// Creates or upgrades the schema while opening.
  bool deploy_schema = false;
  /// Connections to hold at most (SQLite: for reading; it has one for writing).
  std::size_t max_connections = 8;
  /// PostgreSQL behind PgBouncer in transaction mode: no named prepared statements.
  bool pooled = false;
  /// How long a write to SQLite waits for another writer.
  std::chrono::milliseconds busy_timeout{10'000};
  OutboxOptions outbox{};
  std::shared_ptr<LogSink> log_sink{};  ///< Absent: spdlog, warnings and errors to standard error.
  std::shared_ptr<Clock> clock{};       ///< Absent: the system's.
};

/// One step of the schema's history.
struct SchemaChange {
  std::int64_t number = 0;
  std::string name;
  std::string sql;  ///< What applying it does, as a script.
};

class Platform {
 public:
  [[nodiscard]] static Platform open(std::string_view url, PlatformOptions options = {});

  /// Applies what the schema lacks, and answers what that was. Many processes may do it at once.
  static std::vector<SchemaChange> migrate(std::string_view url, const PlatformOptions& options = {});

  /// What migrate() would apply. Writes nothing, and creates no file.
  [[nodiscard]] static std::vector<SchemaChange> pending_changes(std::string_view url,
                                                                 const PlatformOptions& options = {});

  Platform(Platform&&) noexcept;
  Platform& operator=(Platform&&) noexcept;
  ~Platform();

  /// A transaction of your own making; what is enqueued through it takes effect with its commit.
  [[nodiscard]] Transaction begin();

  [[nodiscard]] Outbox& outbox();

  /// What logs call this database.
  [[nodiscard]] const std::string& name() const;

 private:
  struct State;
  explicit Platform(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dovetail
