// Frames that the VFS collects for the write-ahead log are visible to every reader of the log.
#include "sqlite/wal_vfs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "sqlite/writer.hpp"
#include "support/backend.hpp"
#include "support/full_disk.hpp"

namespace dovetail::sqlite {
namespace {

using testing::FullDisk;
using testing::TemporaryDirectory;

/// A connection without the settings of the driver.
class Plain {
 public:
  Plain(const std::string& path, const char* vfs) {
    EXPECT_EQ(
        sqlite3_open_v2(path.c_str(), &native_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs),
        SQLITE_OK);
    run("pragma journal_mode = wal; pragma wal_autocheckpoint = 0");
  }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  ~Plain() { sqlite3_close(native_); }

  int try_run(const std::string& sql) {
    return sqlite3_exec(native_, sql.c_str(), nullptr, nullptr, nullptr);
  }
  void run(const std::string& sql) {
    ASSERT_EQ(try_run(sql), SQLITE_OK) << sql << ": " << sqlite3_errmsg(native_);
  }
  std::string answer(const std::string& sql) {
    std::string text;
    const auto take = [](void* target, int, char** values, char**) {
      *static_cast<std::string*>(target) += values[0] != nullptr ? values[0] : "null";
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(native_, sql.c_str(), take, &text, nullptr), SQLITE_OK) << sql;
    return text;
  }

 private:
  sqlite3* native_ = nullptr;
};

class SqliteWalVfs : public ::testing::Test {
 protected:
  TemporaryDirectory directory;
  std::string path = (directory.path() / "test.db").string();
};

TEST_F(SqliteWalVfs, WhatWasRolledBackDoesNotReachTheFileAfterOthersHaveWritten) {
  Writer writer(path, std::chrono::seconds{10}, Logger{}, path);
  const auto write = [&](const std::string& sql) {
    writer.submit([&](Connection& connection) { connection.script("test", sql); });
  };
  write(
      "create table t (id integer primary key, fill blob); create table other (fill blob); insert "
      "into t "
      "(fill) "
      "select zeroblob(1000) from (with recursive n(i) as (select 1 union all select i + 1 from n "
      "where i < "
      "500) select "
      "i from n)");
  Plain other(path, nullptr);
  other.run("pragma wal_checkpoint(truncate)");
  for (int round = 0; round < 10; ++round) {
    {
      Writer::Hold hold(writer);
      hold.connection().script("test",
                               "pragma cache_size = 10; update t set fill = randomblob(1000)");
    }  // rolls back more pages than the cache holds
    other.run("insert into other select randomblob(3000) from t");
    write("update t set fill = fill where id = 1");
    ASSERT_EQ(other.answer("select count(*) from t where fill = zeroblob(1000)"), "500");
    ASSERT_EQ(other.answer("pragma integrity_check"), "ok");
  }
  other.run("pragma wal_checkpoint(truncate)");
  EXPECT_EQ(other.answer("pragma integrity_check"), "ok");
  EXPECT_EQ(other.answer("select count(*) from other"), "5000");
}

TEST_F(SqliteWalVfs, ACommitIsThereForOthersThoughNothingWasSynced) {
  Plain writer(path, wal_vfs());
  Plain reader(path, nullptr);
  writer.run("pragma synchronous = off; create table t (id integer primary key, fill blob)");
  for (int i = 1; i <= 200; ++i) {
    writer.run("insert into t (fill) values (randomblob(" + std::to_string(i * i) + "))");
    ASSERT_EQ(reader.answer("select count(*) from t"), std::to_string(i));
  }
  EXPECT_EQ(reader.answer("pragma integrity_check"), "ok");
  writer.run("pragma wal_checkpoint(truncate)");
  EXPECT_EQ(reader.answer("select count(*) from t"), "200");
}

TEST_F(SqliteWalVfs, ATransactionLargerThanTheCacheReadsWhatItWrote) {
  Plain writer(path, wal_vfs());
  Plain reader(path, nullptr);
  writer.run("pragma cache_size = 10; create table t (id integer primary key, fill blob)");
  const std::string many =
      "insert into t (fill) select randomblob(1000) from (with recursive n(i) as (select 1 union "
      "all select "
      "i + 1 "
      "from n where i < 2000) select i from n)";
  writer.run("begin; " + many);
  EXPECT_EQ(writer.answer("select count(*) || ' ' || sum(length(fill)) from t"), "2000 2000000");
  EXPECT_EQ(reader.answer("select count(*) from t"), "0");
  writer.run("savepoint s; " + many +
             "; update t set fill = zeroblob(1500) where id % 3 = 0; rollback to s; release s");
  EXPECT_EQ(writer.answer("select count(*) || ' ' || sum(length(fill)) from t"), "2000 2000000");
  writer.run("delete from t where id % 2 = 0; commit");
  EXPECT_EQ(reader.answer("select count(*) || ' ' || sum(length(fill)) from t"), "1000 1000000");
  EXPECT_EQ(reader.answer("pragma integrity_check"), "ok");
  writer.run("begin; " + many + "; rollback");
  EXPECT_EQ(reader.answer("select count(*) from t"), "1000");
}

TEST_F(SqliteWalVfs, TheFramesOfACommitAreOneWrite) {
  FullDisk disk;
  Plain writer(path, wal_vfs());
  writer.run(
      "create table t (id integer primary key, fill blob); insert into t (fill) values "
      "(randomblob(1000))");
  const int before = disk.writes();
  writer.run("insert into t (fill) values (randomblob(60000))");
  EXPECT_EQ(disk.writes() - before, 1);
}

TEST_F(SqliteWalVfs, AFullDiskSpoilsNoMoreThanTheTransaction) {
  FullDisk disk;
  Plain writer(path, wal_vfs());
  Plain reader(path, nullptr);
  writer.run(
      "create table t (id integer primary key, fill blob); insert into t (fill) values "
      "(randomblob(1000))");
  for (const int size : {100, 100'000, 1'000'000}) {  // fails at the commit, or before
    disk.fill(true);
    EXPECT_NE(
        writer.try_run("insert into t (fill) values (randomblob(" + std::to_string(size) + "))"),
        SQLITE_OK);
    disk.fill(false);
    EXPECT_EQ(writer.answer("select count(*) from t"), "1");
    EXPECT_EQ(reader.answer("select count(*) from t"), "1");
  }
  writer.run("insert into t (fill) values (randomblob(50000))");
  EXPECT_EQ(reader.answer("select count(*) from t"), "2");
  EXPECT_EQ(reader.answer("pragma integrity_check"), "ok");
}

}  // namespace
}  // namespace dovetail::sqlite
