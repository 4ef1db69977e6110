#include "storage/retry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dovetail/testing/manual_clock.hpp"
#include "unit/error_kinds.hpp"
#include "unit/recording_sink.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using dovetail::testing::all_error_kinds;
using dovetail::testing::ManualClock;
using dovetail::testing::RecordingSink;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr FullJitterBackoff at_once{.initial = 0ms, .cap = 0ms};

Error failure(ErrorKind kind) {
  return {{kind, "40P01", "outbox_claim"}, "no luck"};
}

class Retry : public ::testing::Test {
 protected:
  void run(const std::function<void()>& attempt) {
    storage::run_with_retry(clock, log, policy, options,
                            [&](const storage::Attempt&) { attempt(); });
  }

  /// An attempt that fails `failures` times with `kind`, then succeeds.
  std::function<void()> failing(ErrorKind kind, int failures) {
    return [this, kind, failures] {
      if (++attempts <= failures) throw failure(kind);
    };
  }

  ManualClock clock;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  Logger log{sink};
  storage::RetryPolicy policy{.max_attempts = 5, .backoff = at_once};
  storage::WriteOptions options;
  int attempts = 0;
};

TEST_F(Retry, CountsEveryRetryWithItsKind) {
  const auto registry = std::make_shared<MetricsRegistry>();
  const Metrics metrics{registry};
  policy.metrics = &metrics;
  policy.store = "sqlite:a.db";
  run(failing(ErrorKind::deadlock, 2));
  const auto counters = registry->snapshot().counters;
  ASSERT_THAT(counters, SizeIs(1));
  EXPECT_EQ(counters[0].name, "dovetail_storage_retries_total");
  EXPECT_EQ(counters[0].labels, (MetricLabels{{"store", "sqlite:a.db"}, {"kind", "deadlock"}}));
  EXPECT_EQ(counters[0].value, 2U);
}

TEST_F(Retry, LeavesASuccessAlone) {
  run(failing(ErrorKind::deadlock, 0));
  EXPECT_EQ(attempts, 1);
  EXPECT_THAT(sink->records(), IsEmpty());
}

TEST_F(Retry, RunsAgainAfterWhatAnotherTryMayMend) {
  for (const auto kind : {ErrorKind::transient, ErrorKind::serialization, ErrorKind::deadlock,
                          ErrorKind::connection_lost}) {
    attempts = 0;
    EXPECT_NO_THROW(run(failing(kind, 2))) << to_string(kind);
    EXPECT_EQ(attempts, 3) << to_string(kind);
  }
}

TEST_F(Retry, RunsAgainFromTheTop) {
  std::vector<std::string> steps;
  run([&] {
    steps.emplace_back("first");
    if (++attempts == 1) throw failure(ErrorKind::serialization);
    steps.emplace_back("second");
  });
  EXPECT_THAT(steps, ElementsAre("first", "first", "second"));
}

TEST_F(Retry, DoesNotRepeatWhatWouldFailAgain) {
  for (const auto kind : {ErrorKind::constraint, ErrorKind::disk_full, ErrorKind::read_only,
                          ErrorKind::permission, ErrorKind::cancelled, ErrorKind::schema,
                          ErrorKind::invalid, ErrorKind::corrupt, ErrorKind::other}) {
    attempts = 0;
    EXPECT_THROW(run(failing(kind, 1)), Error) << to_string(kind);
    EXPECT_EQ(attempts, 1) << to_string(kind);
  }
}

TEST_F(Retry, RepeatsACommitInDoubtOnlyWhenThatIsHarmless) {
  EXPECT_THROW(run(failing(ErrorKind::commit_in_doubt, 1)), Error);
  EXPECT_EQ(attempts, 1);
  attempts = 0;
  options.repeatable = true;
  EXPECT_NO_THROW(run(failing(ErrorKind::commit_in_doubt, 1)));
  EXPECT_EQ(attempts, 2);
}

TEST_F(Retry, DoesNotCatchWhatIsNoError) {
  const auto wrong_state = [this] {
    ++attempts;
    throw InvalidOperation("no transaction");
  };
  EXPECT_THROW(run(wrong_state), InvalidOperation);
  EXPECT_EQ(attempts, 1);
}

TEST_F(Retry, GivesUpAfterMaxAttemptsWithTheLastError) {
  try {
    run([this] {
      throw Error({ErrorKind::deadlock, std::to_string(++attempts), "commit"}, "victim");
    });
    FAIL() << "it never succeeds";
  } catch (const Error& error) {
    EXPECT_EQ(error.native_code(), "5");
  }
  EXPECT_EQ(attempts, 5);
}

TEST_F(Retry, SucceedsWithTheLastAttemptItHas) {
  EXPECT_NO_THROW(run(failing(ErrorKind::deadlock, 4)));
  EXPECT_EQ(attempts, 5);
}

TEST_F(Retry, OfOneAttemptDoesNotRepeat) {
  policy.max_attempts = 1;
  EXPECT_THROW(run(failing(ErrorKind::deadlock, 1)), Error);
  EXPECT_EQ(attempts, 1);
}

TEST_F(Retry, StartsNoAttemptOnceItsPatienceIsOver) {
  const auto slow = [this] {
    ++attempts;
    clock.advance(10s);
    throw failure(ErrorKind::transient);
  };
  policy.patience = 30s;
  EXPECT_THROW(run(slow), Error);
  EXPECT_EQ(attempts, 3);
}

TEST_F(Retry, EndsWithTheErrorWhenStopIsRequested) {
  std::stop_source stop;
  options.stop = stop.get_token();
  const auto stopped_meanwhile = [&] {
    ++attempts;
    stop.request_stop();
    throw failure(ErrorKind::deadlock);
  };
  EXPECT_THROW(run(stopped_meanwhile), Error);
  EXPECT_EQ(attempts, 1);
}

TEST_F(Retry, StopEndsThePauseBetweenTries) {
  std::stop_source stop;
  options.stop = stop.get_token();
  policy = {.max_attempts = 1'000'000, .patience = 24h, .backoff = {.initial = 1h, .cap = 1h}};
  auto running =
      std::async(std::launch::async, [&] { run(failing(ErrorKind::deadlock, 1'000'000)); });
  while (clock.sleepers() == 0) std::this_thread::yield();
  stop.request_stop();
  EXPECT_THROW(running.get(), Error);
}

TEST_F(Retry, PausesOnTheClockWithinTheBackoff) {
  policy.patience =
      24h * 365 * 50;  // the loop below may move the clock many times before the sleeper has woken
  policy.backoff = {.initial = 1h, .cap = 1h};
  const auto start = clock.mono();
  auto running = std::async(std::launch::async, [&] { run(failing(ErrorKind::deadlock, 4)); });
  while (running.wait_for(0s) != std::future_status::ready) {
    if (clock.sleepers() > 0) clock.advance(1min);
    std::this_thread::yield();
  }
  running.get();
  EXPECT_EQ(attempts, 5);
  EXPECT_GT(clock.mono(), start);
}

TEST_F(Retry, LogsEveryRepetitionAsAWarning) {
  run(failing(ErrorKind::deadlock, 2));
  const auto records = sink->records();
  ASSERT_THAT(records, SizeIs(2));
  for (const auto& record : records) {
    EXPECT_EQ(record.level, LogLevel::warn);
    EXPECT_EQ(record.event, "storage.retry");
    EXPECT_EQ(record.fields.at("kind"), LogField::Value{"deadlock"});
    EXPECT_EQ(record.fields.at("code"), LogField::Value{"40P01"});
    EXPECT_EQ(record.fields.at("statement"), LogField::Value{"outbox_claim"});
  }
  EXPECT_EQ(records[0].fields.at("tries"), LogField::Value{std::int64_t{1}});
  EXPECT_EQ(records[1].fields.at("tries"), LogField::Value{std::int64_t{2}});
}

TEST_F(Retry, LogsNothingForWhatItDoesNotRepeat) {
  EXPECT_THROW(run(failing(ErrorKind::constraint, 1)), Error);
  EXPECT_THAT(sink->records(), IsEmpty());
}

TEST(MayRetry, IsTrueForWhatIsTransientAndForRepeatableDoubt) {
  for (const auto kind : all_error_kinds()) {
    const auto error = failure(kind);
    EXPECT_EQ(storage::may_retry(error, {}), error.is_transient()) << to_string(kind);
    EXPECT_EQ(storage::may_retry(error, {.repeatable = true}),
              error.is_transient() || error.is_in_doubt())
        << to_string(kind);
  }
}

TEST_F(Retry, TellsTheRunWhetherAnEarlierOneMayHaveTakenEffect) {
  options.repeatable = true;
  const std::vector<ErrorKind> failures{ErrorKind::deadlock, ErrorKind::commit_in_doubt,
                                        ErrorKind::deadlock};
  std::vector<std::vector<bool>> told;
  storage::run_with_retry(clock, log, policy, options, [&](const storage::Attempt& attempt) {
    told.push_back({attempt.after_doubt, attempt.previous_in_doubt});
    ASSERT_EQ(attempt.number, static_cast<int>(told.size()));
    if (told.size() <= failures.size()) throw failure(failures[told.size() - 1]);
  });
  EXPECT_THAT(told, ElementsAre(ElementsAre(false, false), ElementsAre(false, false),
                                ElementsAre(true, true), ElementsAre(true, false)));
}

}  // namespace
