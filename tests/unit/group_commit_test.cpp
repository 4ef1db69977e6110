#include "queue/group_commit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/clock.hpp"
#include "support/start_waiting.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using dovetail::testing::start_waiting;
using queue::GroupCommit;
using Outcome = GroupCommit::Outcome;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NoSession final : public storage::WriteSession {
 public:
  Rows query(std::string_view, std::span<const Parameter>) override { return {}; }
  std::size_t execute(std::string_view, std::span<const Parameter>) override { return 0; }
};

/// Writes that wait until the test lets them continue, one after the other.
class GatedDatabase final : public storage::Database {
 public:
  explicit GatedDatabase(storage::GroupCommitOptions options) : options_(options) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::string& schema() const override { return name_; }
  [[nodiscard]] Clock& clock() const override { return *clock_; }
  [[nodiscard]] bool transactions_exclude_writers() const override { return false; }
  [[nodiscard]] storage::GroupCommitOptions group_commit() const override { return options_; }
  void read(const ReadBody&, const storage::ReadOptions&) override {}
  void close_idle() override {}
  std::unique_ptr<storage::TransactionHandle> begin() override { return nullptr; }
  std::optional<std::chrono::microseconds> clock_lead(storage::ReadSession&) override { return {}; }
  void listen(const std::stop_token&, const std::function<void(bool)>&) override {}

  void write(const storage::WriteOptions& given, const WriteBody& body) override {
    EXPECT_TRUE(given.once);
    NoSession session;
    if (!no_connection) body(session, {});
    std::unique_lock lock(mutex_);
    ++writes_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !ends_.empty(); });
    const auto failure = ends_.front();
    ends_.pop_front();
    if (failure) throw Error({*failure, "", "commit"}, "no luck");
  }

  /// Waits until `count` writes have run their bodies.
  void await_writes(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return writes_ >= count; });
  }
  /// Lets the write that waits longest, or the next one, end.
  void end_one(std::optional<ErrorKind> failure = {}) {
    const std::lock_guard lock(mutex_);
    ends_.push_back(failure);
    changed_.notify_all();
  }

  std::atomic<bool> no_connection{false};

 private:
  const storage::GroupCommitOptions options_;
  const std::string name_ = "gated";
  const std::shared_ptr<Clock> clock_ = system_clock();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::optional<ErrorKind>> ends_;
  int writes_ = 0;
};

/// Records the sizes of groups.
class RecordingProducer final : public storage::QueueProducer {
 public:
  Enqueued enqueue(storage::WriteSession&, const storage::NewMessage& message) override {
    note(1);
    return {message.id, true};
  }
  std::vector<Enqueued> enqueue_many(storage::WriteSession&,
                                     std::span<const storage::NewMessage> messages, bool) override {
    note(messages.size());
    return {};
  }
  std::vector<std::size_t> sizes() {
    const std::lock_guard lock(mutex_);
    return sizes_;
  }

 private:
  void note(std::size_t size) {
    const std::lock_guard lock(mutex_);
    sizes_.push_back(size);
  }
  std::mutex mutex_;
  std::vector<std::size_t> sizes_;
};

storage::NewMessage message(std::string_view payload = {}) {
  storage::NewMessage result;
  result.id = MessageId::generate();
  result.topic = "t";
  result.payload = payload;
  return result;
}

class GroupCommitTest : public ::testing::Test {
 protected:
  /// A caller that waits inside store().
  void call(std::string_view payload = {}) {
    callers.push_back(start_waiting([this, payload] {
      try {
        note(group_commit.store(message(payload)));
      } catch (const Error& error) {
        note(error.kind());
      }
    }));
  }
  void note(Outcome outcome) {
    const std::lock_guard lock(mutex);
    outcomes.push_back(outcome);
  }
  void note(ErrorKind kind) {
    const std::lock_guard lock(mutex);
    errors.push_back(kind);
  }
  void join() {
    for (auto& caller : callers) caller.join();
  }
  /// One caller leads, and `count` callers wait behind it.
  void gather(int count) {
    call();
    database.await_writes(1);
    for (int i = 0; i < count; ++i) call();
  }

  GatedDatabase database{{.transactions = 1,
                          .most_transactions = 1,
                          .most_messages = 20,
                          .most_bytes = 1'000,
                          .patience = 1h}};
  RecordingProducer producer;
  GroupCommit group_commit{database, producer, "outbox", Logger{}, Metrics{}};
  std::mutex mutex;
  std::vector<Outcome> outcomes;
  std::vector<ErrorKind> errors;
  std::vector<std::jthread> callers;
};

TEST_F(GroupCommitTest, ACallerAloneSendsItsMessageAtOnce) {
  call();
  database.await_writes(1);
  database.end_one();
  join();
  EXPECT_THAT(producer.sizes(), ElementsAre(1U));
  EXPECT_THAT(outcomes, ElementsAre(Outcome::stored));
}

TEST_F(GroupCommitTest, MessagesThatGatherMeanwhileShareTheNextTransaction) {
  gather(5);
  database.end_one();
  database.await_writes(2);
  {
    const std::lock_guard lock(mutex);
    EXPECT_LE(outcomes.size(), 1U) << "a member returned before its commit";
  }
  database.end_one();
  join();
  EXPECT_THAT(producer.sizes(), ElementsAre(1U, 5U));
  EXPECT_THAT(outcomes, Each(Outcome::stored));
}

TEST_F(GroupCommitTest, AGroupThatTheDatabaseRefusesIsNotStored) {
  gather(3);
  database.end_one();
  database.end_one(ErrorKind::constraint);
  join();
  EXPECT_EQ(std::ranges::count(outcomes, Outcome::stored), 1);
  EXPECT_EQ(std::ranges::count(outcomes, Outcome::not_stored), 3);
}

TEST_F(GroupCommitTest, ARefusedGroupDoesNotTouchThoseThatWait) {
  gather(3);
  database.end_one(ErrorKind::constraint);
  database.end_one();
  join();
  EXPECT_THAT(producer.sizes(), ElementsAre(1U, 3U));
  EXPECT_EQ(std::ranges::count(outcomes, Outcome::stored), 3);
}

TEST_F(GroupCommitTest, EachMemberLearnsThatTheCommitIsInDoubt) {
  gather(3);
  database.end_one();
  database.end_one(ErrorKind::commit_in_doubt);
  join();
  EXPECT_EQ(std::ranges::count(outcomes, Outcome::in_doubt), 3);
}

TEST_F(GroupCommitTest, WhenTheDatabaseHasTroubleNobodyWaitsForTheNextLeader) {
  gather(3);
  database.end_one(ErrorKind::connection_lost);
  join();
  EXPECT_THAT(producer.sizes(), ElementsAre(1U)) << "those that waited were sent as a group";
  EXPECT_THAT(outcomes, SizeIs(4));
  EXPECT_THAT(outcomes, Each(Outcome::not_stored));
}

TEST_F(GroupCommitTest, AfterTroubleTheNextCallerLeadsAgain) {
  gather(2);
  database.end_one(ErrorKind::connection_lost);
  join();
  callers.clear();
  call();
  database.end_one();
  join();
  EXPECT_EQ(outcomes.back(), Outcome::stored);
}

TEST_F(GroupCommitTest, TheMessagesOfAGroupAreLimited) {
  gather(30);
  for (int i = 0; i < 3; ++i) database.end_one();
  join();
  EXPECT_THAT(producer.sizes(), ElementsAre(1U, 20U, 10U));
}

TEST_F(GroupCommitTest, TheBytesOfAGroupAreLimited) {
  const std::string large(300, 'x');
  gather(0);
  for (int i = 0; i < 5; ++i) call(large);
  for (int i = 0; i < 3; ++i) database.end_one();
  join();
  EXPECT_THAT(producer.sizes(), ElementsAre(1U, 3U, 2U));
}

TEST_F(GroupCommitTest, MessagesThatMayWaitForAnotherTransactionAreNotTaken) {
  auto given_id = message();
  given_id.fresh = false;
  auto with_key = message();
  with_key.unique_key = "key";
  const std::string huge(100'000, 'x');
  EXPECT_TRUE(group_commit.takes(message()));
  EXPECT_FALSE(group_commit.takes(given_id));
  EXPECT_FALSE(group_commit.takes(with_key));
  EXPECT_FALSE(group_commit.takes(message(huge)));
}

TEST(GroupCommitOptions, AnEngineThatGroupsByItselfGetsSingleMessages) {
  GatedDatabase database{{}};
  RecordingProducer producer;
  const GroupCommit group_commit{database, producer, "outbox", Logger{}, Metrics{}};
  EXPECT_FALSE(group_commit.takes(message()));
}

TEST(GroupCommitWait, ACallerThatHasWaitedLongEnoughLeadsAFurtherTransaction) {
  GatedDatabase database{
      {.transactions = 1, .most_transactions = 2, .most_wait = 1ms, .patience = 1h}};
  RecordingProducer producer;
  GroupCommit group_commit{database, producer, "outbox", Logger{}, Metrics{}};
  const auto call = [&] { EXPECT_EQ(group_commit.store(message()), Outcome::stored); };
  std::vector<std::jthread> callers;
  for (int i = 1; i <= 2; ++i) {
    callers.push_back(start_waiting(call));
    database.await_writes(i);
  }
  for (int i = 0; i < 3; ++i) callers.push_back(start_waiting(call));  // two is the limit
  database.end_one();
  database.await_writes(3);
  database.end_one();
  database.end_one();
  callers.clear();
  EXPECT_THAT(producer.sizes(), ElementsAre(1U, 1U, 3U));
}

TEST(GroupCommitPatience, ACallThatHasTakenTooLongEndsWithTheFailure) {
  GatedDatabase database{{.transactions = 1, .most_transactions = 1, .patience = 0ms}};
  RecordingProducer producer;
  GroupCommit group_commit{database, producer, "outbox", Logger{}, Metrics{}};
  database.no_connection = true;
  database.end_one(ErrorKind::transient);
  EXPECT_THROW((void)group_commit.store(message()), Error);
  EXPECT_THAT(producer.sizes(), IsEmpty());
  database.end_one(ErrorKind::commit_in_doubt);
  EXPECT_EQ(group_commit.store(message()), Outcome::in_doubt) << "its message may be stored";
}

}  // namespace
