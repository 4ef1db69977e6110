// The SQLite driver: the single writer, group commit, checkpoints, several processes on one file.
#include <filesystem>
#include <fstream>
#include <thread>

#include "sqlite/writer.hpp"
#include "support/backend.hpp"
#include "support/process.hpp"

namespace dovetail::sqlite {
namespace {

using testing::ChildProcess;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

class SqliteDriver : public ::testing::Test {
 protected:
  static void insert(Connection& connection, int id) {
    auto cursor = connection.prepare("insert into t (id) values ($1)");
    cursor.bind(std::int64_t{id});
    cursor.run();
  }
  std::int64_t number(const std::string& sql) const {
    auto connection = Connection::open(path, Connection::Mode::read_only, std::chrono::seconds{5});
    auto cursor = connection->prepare(sql);
    cursor.step();
    return cursor.integer(0);
  }
  std::unique_ptr<Writer> open_writer(std::chrono::milliseconds patience = std::chrono::seconds{
                                          10}) const {
    auto writer = std::make_unique<Writer>(path, patience, Logger{}, path);
    writer->submit([](Connection& connection) {
      connection.script("t", "create table if not exists t (id integer primary key, fill blob)");
    });
    return writer;
  }
  /// Writes many keys at the same time, each in its own submission. Half of them are refused, and
  /// do not affect the others.
  void write_every_key_twice(const std::function<void(Connection&, int)>& write) const {
    auto writer = open_writer();
    std::atomic<int> failures{0};
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 64; ++i) {
        threads.emplace_back([&, i] {
          try {
            writer->submit([&](Connection& connection) { write(connection, i / 2); });
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::constraint);
            ++failures;
          }
        });
      }
    }
    EXPECT_EQ(failures, 32);
    EXPECT_EQ(number("select count(*) from t"), 32);
  }

  TemporaryDirectory directory;
  std::string path = (directory.path() / "test.db").string();
};

TEST_F(SqliteDriver, TheFileIsInWalModeWithFullSynchronisation) {
  auto writer = open_writer();
  writer->submit([](Connection& connection) {
    auto mode = connection.prepare("pragma journal_mode");
    mode.step();
    EXPECT_EQ(mode.text(0), "wal");
    auto synchronous = connection.prepare("pragma synchronous");
    synchronous.step();
    EXPECT_EQ(synchronous.integer(0), 2);
    auto checkpoint = connection.prepare("pragma wal_autocheckpoint");
    checkpoint.step();
    EXPECT_EQ(checkpoint.integer(0), 0);
  });
}

TEST_F(SqliteDriver, CallersThatWaitTogetherShareCommits) {
  auto writer = open_writer();
  int commits = 0;
  writer->submit([&](Connection& connection) {
    const auto count = [](void* counter) {
      ++*static_cast<int*>(counter);
      return 0;
    };
    sqlite3_commit_hook(connection.native(), count, &commits);
  });
  commits = 0;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 100; ++i) {
        writer->submit([&](Connection& connection) { insert(connection, thread * 100 + i); });
      }
    });
  }
  threads.clear();
  EXPECT_EQ(number("select count(*) from t"), 800);
  EXPECT_LT(
      commits,
      800);  // far fewer on a disk; a file system in memory leaves little time to form large groups
}

TEST_F(SqliteDriver, AFailingSubmissionDoesNotTouchItsNeighbours) {
  write_every_key_twice([](Connection& connection, int id) { insert(connection, id); });
}

/// Rows that wait for other rows of their transaction.
struct GatheredRows final : Connection::Gathered {
  void write(Connection& connection) override {
    for (const int id : std::exchange(ids, {})) {
      auto cursor = connection.prepare("insert into t (id) values ($1)");
      cursor.bind(std::int64_t{id});
      cursor.run();
    }
  }
  void drop() noexcept override { ids.clear(); }
  void add(Connection& connection, int id) {
    connection.gather(*this);
    ids.push_back(id);
  }
  std::vector<int> ids;
};

TEST_F(SqliteDriver, WhatIsGatheredIsWrittenBeforeOtherStatementsAndBeforeTheCommit) {
  auto writer = open_writer();
  GatheredRows some;
  GatheredRows others;
  writer->submit([&](Connection& connection) {
    ASSERT_TRUE(connection.gathering());
    some.add(connection, 1);
    some.add(connection, 2);
    EXPECT_EQ(some.ids.size(), 2U) << "they wait";
    others.add(connection, 3);
    EXPECT_TRUE(some.ids.empty()) << "one kind at a time";
    auto count = connection.prepare("select count(*) from t");
    count.step();
    EXPECT_EQ(count.integer(0), 3);
    some.add(connection, 4);
  });
  EXPECT_EQ(number("select count(*) from t"), 4);
  EXPECT_THROW(writer->submit([&](Connection& connection) {
    some.add(connection, 5);
    throw std::runtime_error("changed my mind");
  }),
               std::runtime_error);
  EXPECT_TRUE(some.ids.empty());
  Writer::Hold hold(*writer);
  EXPECT_FALSE(hold.connection().gathering())
      << "whoever holds a transaction is gone before it ends";
}

TEST_F(SqliteDriver, WhatIsGatheredAndCannotBeWrittenSpoilsNothingForOthers) {
  GatheredRows rows;
  write_every_key_twice([&](Connection& connection, int id) {
    if (connection.gathering()) {
      rows.add(connection, id);
    } else {
      insert(connection, id);
    }
  });
}

TEST_F(SqliteDriver, AThreadThatHoldsATransactionIsNotLeftWaitingForItself) {
  auto writer = open_writer();
  Writer::Hold hold(*writer);
  EXPECT_THROW(writer->submit([](Connection&) {}), InvalidOperation);
  EXPECT_THROW(Writer::Hold second(*writer), InvalidOperation);
}

TEST_F(SqliteDriver, AWriterThatWaitsTooLongForAnotherTransactionSaysSo) {
  auto writer = open_writer(std::chrono::milliseconds{50});
  Writer::Hold hold(*writer);
  std::jthread([&] {
    try {
      writer->submit([](Connection&) {});
      ADD_FAILURE() << "went past an open transaction";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::transient);
      EXPECT_THAT(error.what(), HasSubstr("holds the write lock"));
    }
  }).join();
}

TEST_F(SqliteDriver, TheWalStartsOverInsteadOfGrowingForEver) {
  auto writer = open_writer();
  for (int i = 0; i < 6'000; ++i) {
    writer->submit([&](Connection& connection) {
      connection.script("fill", "insert or replace into t (id, fill) values (" +
                                    std::to_string(i % 500) + ", randomblob(6000))");
    });
  }
  // 6,000 commits of three pages or more are at least 70 MiB of WAL.
  EXPECT_LT(std::filesystem::file_size(path + "-wal"), std::size_t{40} << 20);
  EXPECT_EQ(number("select count(*) from t"), 500);
}

TEST_F(SqliteDriver, InteractiveTransactionsCheckpointToo) {
  auto writer = open_writer();
  for (int i = 0; i < 3'000; ++i) {
    Writer::Hold hold(*writer);
    hold.connection().script("fill", "insert or replace into t (id, fill) values (" +
                                         std::to_string(i % 100) + ", randomblob(12000))");
    hold.commit();
  }
  EXPECT_LT(std::filesystem::file_size(path + "-wal"), std::size_t{40} << 20);
}

TEST_F(SqliteDriver, AReaderOfAnOldSnapshotDoesNotStopTheWriter) {
  auto writer = open_writer();
  auto reader = Connection::open(path, Connection::Mode::read_only, std::chrono::seconds{5});
  reader->script("begin", "begin");
  auto before = reader->prepare("select count(*) from t");
  before.step();
  for (int i = 0; i < 2'000; ++i) {
    writer->submit([&](Connection& connection) {
      connection.script("fill", "insert into t (fill) values (randomblob(10000))");
    });
  }
  auto after = reader->prepare("select count(*) from t");
  after.step();
  EXPECT_EQ(after.integer(0), before.integer(0));
  EXPECT_EQ(number("select count(*) from t"), 2'000);
}

TEST_F(SqliteDriver, SeveralProcessesShareOneFile) {
  open_writer().reset();
  std::vector<ChildProcess> children;
  for (int process = 0; process < 4; ++process) {
    children.emplace_back([&, process] {
      Writer writer(path, std::chrono::seconds{30}, Logger{}, path);
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < 3; ++thread) {
        threads.emplace_back([&, thread] {
          for (int i = 0; i < 100; ++i) {
            writer.submit([&](Connection& connection) {
              insert(connection, process * 1000 + thread * 100 + i);
            });
          }
        });
      }
      threads.clear();
    });
  }
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(number("select count(*) from t"), 1'200);
  auto connection = Connection::open(path, Connection::Mode::read_only, std::chrono::seconds{5});
  auto check = connection->prepare("pragma integrity_check");
  check.step();
  EXPECT_EQ(check.text(0), "ok");
}

TEST_F(SqliteDriver, AMemoryDatabaseOrAnEmptyPathIsRefused) {
  EXPECT_THROW((void)Platform::open("sqlite::memory:"), std::invalid_argument);
  EXPECT_THROW((void)Platform::open("sqlite:"), std::invalid_argument);
  EXPECT_THROW((void)Platform::open("oracle:x"), std::invalid_argument);
}

TEST_F(SqliteDriver, AFileThatIsNoDatabaseIsCorrupt) {
  std::ofstream{path} << std::string(10'000, 'x');
  try {
    (void)Platform::open("sqlite:" + path, {.deploy_schema = true, .log_sink = null_log_sink()});
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  }
}

}  // namespace
}  // namespace dovetail::sqlite
