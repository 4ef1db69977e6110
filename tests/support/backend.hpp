// A new database of one of the engines for one test. The test controls its time.
//
// PostgreSQL: an own schema in the cluster that DOVETAIL_TEST_POSTGRES names (tools/pg-cluster
// run). Its clock() function is replaced to shift the time. If ./test has created a pool of
// migrated schemas (schema_pool.sql), contract and driver tests take theirs from it. SQLite: a file
// in a temporary directory, and a SteppedClock.
#pragma once

#include <libpq-fe.h>
#include <sqlite3.h>

#include <filesystem>
#include <memory>
#include <string>

#include "dovetail/dovetail.hpp"
#include "storage/database.hpp"
#include "support/stepped_clock.hpp"

namespace dovetail::testing {

enum class BackendKind { postgres, sqlite };
void PrintTo(BackendKind kind,
             std::ostream* out);  // NOLINT(readability-identifier-naming): GoogleTest's name

/// A temporary directory. The destructor deletes it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

enum class Tables {
  may_exist,  ///< The test migrates its database, or a pool has done so.
  none,       ///< The database is empty, for tests of migrations.
};

class Backend {
 public:
  explicit Backend(BackendKind kind, Tables tables = Tables::none);
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] BackendKind kind() const { return kind_; }
  [[nodiscard]] bool is_postgres() const { return kind_ == BackendKind::postgres; }
  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] const std::string& schema() const { return schema_; }
  /// The qualified name of a table of Dovetail in the SQL of this engine.
  [[nodiscard]] std::string table(const std::string& name) const;

  /// Options to open this backend: its schema, its clock, and deploy_schema.
  [[nodiscard]] PlatformOptions options() const;
  [[nodiscard]] Platform open() const { return Platform::open(url_, options()); }
  [[nodiscard]] std::unique_ptr<storage::Database> open_database(
      storage::DatabaseOptions options = {}) const;

  /// The database's time.
  [[nodiscard]] WallTime now() const;
  /// Moves the database's time.
  void advance(std::chrono::milliseconds by);
  /// advance() moves it, on both engines. Threads that wait on it wake only then.
  [[nodiscard]] ManualClock& clock() { return *manual_; }

  /// Runs SQL on a separate connection, without Dovetail.
  Rows sql(const std::string& text) const;
  [[nodiscard]] std::int64_t number(const std::string& query) const {
    return sql(query).at(0).get<std::int64_t>(0);
  }

 private:
  void use_pool();

  BackendKind kind_;
  std::string url_;
  std::string schema_;
  std::shared_ptr<ManualClock> manual_ = std::make_shared<ManualClock>();
  std::shared_ptr<SteppedClock> clock_ = std::make_shared<SteppedClock>(manual_);
  std::chrono::milliseconds shift_{0};
  std::unique_ptr<TemporaryDirectory> directory_;
  bool of_pool_ = false;
};

/// The base of every contract: one instance per engine.
class BackendTest : public ::testing::TestWithParam<BackendKind> {
 protected:
  explicit BackendTest(Tables tables = Tables::may_exist) : backend{GetParam(), tables} {}
  Backend backend;
};

/// The base of contracts about migrations.
class EmptyBackendTest : public BackendTest {
 protected:
  EmptyBackendTest() : BackendTest(Tables::none) {}
};

std::string backend_name(const ::testing::TestParamInfo<BackendKind>& info);

/// A connection of the user with an open transaction, which Dovetail borrows.
class UserConnection {
 public:
  explicit UserConnection(const Backend& backend);
  ~UserConnection();
  UserConnection(const UserConnection&) = delete;
  UserConnection& operator=(const UserConnection&) = delete;
  void execute(const std::string& sql);
  [[nodiscard]] Transaction borrow();

 private:
  PGconn* postgres_ = nullptr;
  sqlite3* sqlite_ = nullptr;
};

}  // namespace dovetail::testing

/// Registers a contract for both engines.
#define DOVETAIL_CONTRACT(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(Engines, suite,                                               \
                           ::testing::Values(::dovetail::testing::BackendKind::postgres, \
                                             ::dovetail::testing::BackendKind::sqlite),  \
                           ::dovetail::testing::backend_name)
