// stop() and the destructor keep their deadline while another program holds the lock of the file.
#include <future>
#include <optional>
#include <thread>

#include "sqlite/connection.hpp"
#include "sqlite/file_lock.hpp"
#include "sqlite/writer.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;

/// A lock that is held longer than the test should run. It is released if the test waits for it.
class LongLock {
 public:
  LongLock(const std::function<void()>& take, std::function<void()> let_go)
      : let_go_(std::move(let_go)) {
    take();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      if (system_clock()->sleep_for(30s, stop)) end();
    });
  }
  ~LongLock() {
    thread_.request_stop();
    thread_.join();
    end();
  }
  LongLock(const LongLock&) = delete;
  LongLock& operator=(const LongLock&) = delete;
  [[nodiscard]] bool is_held() const { return !ended_; }

 private:
  void end() {
    if (!ended_.exchange(true)) let_go_();
  }
  std::function<void()> let_go_;
  std::atomic<bool> ended_{false};
  std::jthread thread_;
};

class SqliteStop : public ::testing::Test {
 protected:
  SqliteStop() : path((directory.path() / "stop.db").string()) {
    PlatformOptions options;
    options.deploy_schema = true;
    options.busy_timeout = 10min;
    options.retry_for = 10min;
    options.worker.drain = 100ms;
    platform.emplace(Platform::open("sqlite:" + path, options));
  }
  /// Starts a worker whose handler waits until it may end.
  void start_worker(bool uses_transaction) {
    platform->on("t", [this, uses_transaction](const Message&, HandlerContext& context) {
      begun.set_value();
      may_end.get_future().wait();
      if (uses_transaction) context.transaction().execute("select 1");
    });
    platform->start();
    platform->outbox().enqueue({.topic = "t"});
    begun.get_future().wait();
  }
  /// The lock of another process that commits with Dovetail.
  std::unique_ptr<LongLock> lock_of_another_process() {
    auto side = std::make_shared<sqlite::FileLock>(path + "-lock");
    return std::make_unique<LongLock>(
        [&] { EXPECT_TRUE(side->try_lock_for(10s, [] { return false; })); },
        [side] { side->unlock(); });
  }
  /// The lock of the sqlite3 shell.
  std::unique_ptr<LongLock> lock_of_another_program() {
    std::shared_ptr<sqlite::Connection> other =
        sqlite::Connection::open(path, sqlite::Connection::Mode::read_write, 10s);
    return std::make_unique<LongLock>([&] { other->script("begin", "begin immediate"); },
                                      [other] { other->script("rollback", "rollback"); });
  }
  /// Stops while the message of the handler is not settled yet.
  void expect_stop_before(const LongLock& lock) {
    may_end.set_value();
    platform->stop(100ms);
    EXPECT_TRUE(lock.is_held()) << "stop() waited for the lock";
    platform.reset();
    EXPECT_TRUE(lock.is_held()) << "the destructor waited for the lock";
  }

  TemporaryDirectory directory;
  std::string path;
  std::promise<void> begun;
  std::promise<void> may_end;
  std::optional<Platform> platform;
};

TEST_F(SqliteStop, KeepsItsDeadlineBehindALockOfAnotherProcess) {
  start_worker(false);
  const auto lock = lock_of_another_process();
  expect_stop_before(*lock);
}

TEST_F(SqliteStop, KeepsItsDeadlineBehindALockOfAnotherProgram) {
  start_worker(false);
  const auto lock = lock_of_another_program();
  expect_stop_before(*lock);
}

TEST_F(SqliteStop, TheDestructorDoesNotWaitForAHandlersTransaction) {
  start_worker(true);
  const auto lock = lock_of_another_process();
  expect_stop_before(*lock);
}

TEST_F(SqliteStop, TheDestructorDoesNotWaitForAHandlersTransactionBehindAnotherProgram) {
  start_worker(true);
  const auto lock = lock_of_another_program();
  expect_stop_before(*lock);
}

TEST_F(SqliteStop, ACallerThatIsStoppedLeavesAndTheOthersWaitOn) {
  platform.reset();
  sqlite::Writer writer(path, 10min, Logger{}, path);
  auto lock = lock_of_another_process();
  std::stop_source source;
  std::atomic<int> cancelled{0};
  std::atomic<int> done{0};
  std::vector<std::jthread> callers;
  const auto call = [&](const std::stop_token& stop) {
    try {
      writer.submit([](sqlite::Connection&) {}, stop);
      ++done;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::cancelled);
      ++cancelled;
    }
  };
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] { call(i % 2 == 0 ? source.get_token() : std::stop_token{}); });
  }
  source.request_stop();
  EXPECT_TRUE(eventually([&] { return cancelled == 4; }));
  EXPECT_TRUE(lock->is_held());
  EXPECT_EQ(done, 0);
  lock.reset();
  callers.clear();
  EXPECT_EQ(done, 4);
}

}  // namespace
}  // namespace dovetail::testing
