// Windows of slices under random events, and the cursors of shards that have vanished.
#include <map>
#include <random>

#include "support/backend.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FanoutWindowsContract : public BackendTest {
 protected:
  FanoutWindowsContract() {
    fanout.add({.topic = "etl",
                .work_key = "payments",
                .cron = "0 0 1 1 *",
                .every = minutes{10},
                .jitter = minutes{5}},
               [](const FanoutPlan&) { return FanoutCandidates(std::vector<FanoutCandidate>{}); });
  }

  FanoutRound round(const std::vector<std::string>& shards,
                    const std::string& work_key = "payments") {
    std::vector<FanoutCandidate> candidates;
    for (const auto& shard : shards) candidates.push_back({.shard_key = shard});
    return fanout.enqueue_due({.topic = "etl", .work_key = work_key}, std::move(candidates));
  }
  std::vector<ClaimedMessage> claim(int most = 1'000) {
    return platform.outbox().claim({.owner = owner, .batch_size = most, .lease = hours{24}});
  }
  void complete_all() {
    for (const auto& each : claim()) {
      EXPECT_TRUE(fanout.mark_completed(FanoutSlice::from(each.message)));
      EXPECT_EQ(platform.outbox().ack(owner, std::vector{each.claim}), 1U);
    }
  }
  std::vector<std::string> shards_with_cursors() {
    std::vector<std::string> keys;
    for (const auto& each : fanout.cursors("etl")) keys.push_back(each.shard_key);
    return keys;
  }

  Platform platform = backend.open();
  Fanout& fanout = platform.fanout();
  OwnerToken owner = OwnerToken::generate();
};
DOVETAIL_CONTRACT(FanoutWindowsContract);

// --- windows

/// Creates events in an order that depends on the seed, and records the end of the last window of
/// each shard.
class RandomEvents {
 public:
  RandomEvents(Backend& backend, Platform& platform, unsigned seed)
      : backend_(backend), platform_(platform), random_(seed) {}

  void happen() {
    switch (below(9)) {
      case 0:
      case 1:
        return plan();
      case 2:
        return claim();
      case 3:
      case 4:
        return end_one();
      case 5:
        static_cast<void>(platform_.outbox().replay(DeadLetterFilter{}));
        return;
      case 6:
        EXPECT_TRUE(platform_.fanout().set_cadence("etl", "payments", minutes{1 + below(20)}));
        return;
      default:
        backend_.advance(minutes{1 + below(15)});
    }
  }
  [[nodiscard]] const std::map<std::string, WallTime>& ends() const { return ends_; }
  [[nodiscard]] int completions() const { return completions_; }

 private:
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

  void plan() {
    std::vector<FanoutCandidate> candidates;
    for (int i = 0; i < 4; ++i) {
      if (below(3) > 0) candidates.push_back({.shard_key = std::to_string(i)});
    }
    platform_.fanout().enqueue_due({.topic = "etl", .work_key = "payments"}, candidates);
  }
  void claim() {
    for (auto& each : platform_.outbox().claim(
             {.owner = owner_, .batch_size = 1 + below(4), .lease = hours{24}})) {
      held_.push_back(std::move(each));
    }
  }
  void end_one() {
    if (held_.empty()) return;
    const auto index = static_cast<std::size_t>(below(static_cast<int>(held_.size())));
    const auto message = held_[index];
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    const std::vector claims{message.claim};
    switch (below(5)) {
      case 0:
        platform_.outbox().fail(owner_, claims, "broken");
        return;
      case 1:
        platform_.outbox().abandon(owner_, claims);
        return;
      default:
        complete(message.message);
        platform_.outbox().ack(owner_, claims);
    }
  }
  void complete(const Message& message) {
    auto slice = FanoutSlice::from(message);
    ASSERT_LT(slice.window_start.value_or(WallTime{}), slice.window_end);
    // Sometimes only the first half of the window is done.
    if (slice.window_start && below(4) == 0) {
      slice.window_end = *slice.window_start + (slice.window_end - *slice.window_start) / 2;
    }
    const auto known = ends_.find(slice.shard_key);
    const auto end = known != ends_.end() ? std::optional{known->second} : std::nullopt;
    const bool completed = platform_.fanout().mark_completed(slice);
    EXPECT_EQ(completed, slice.window_start == end) << "a gap or an overlap";
    if (!completed) return;
    ends_[slice.shard_key] = slice.window_end;
    ++completions_;
    EXPECT_FALSE(platform_.fanout().mark_completed(slice)) << "a second time";
  }

  Backend& backend_;
  Platform& platform_;
  std::mt19937 random_;
  OwnerToken owner_ = OwnerToken::generate();
  std::vector<ClaimedMessage> held_;
  std::map<std::string, WallTime> ends_;
  int completions_ = 0;
};

TEST_P(FanoutWindowsContract, WindowsFormAChainWhateverHappens) {
  int completions = 0;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Backend fresh(GetParam());
    auto own = fresh.open();
    own.fanout().add(
        {.topic = "etl", .work_key = "payments", .cron = "0 0 1 1 *"},
        [](const FanoutPlan&) { return FanoutCandidates(std::vector<FanoutCandidate>{}); });
    RandomEvents events(fresh, own, seed);
    for (int i = 0; i < 250 && !HasFailure(); ++i) events.happen();
    for (const auto& cursor : own.fanout().cursors("etl")) {
      const auto end = events.ends().find(cursor.shard_key);
      if (end == events.ends().end()) {
        EXPECT_FALSE(cursor.last_completed_at);
      } else {
        EXPECT_EQ(cursor.last_completed_at, end->second);
      }
    }
    completions += events.completions();
  }
  EXPECT_GT(completions, 20) << "the events are worth a test";
}

// --- rows that are committed late

class FanoutSettleContract : public FanoutWindowsContract {
 protected:
  void add(std::chrono::milliseconds settle) {
    auto own = backend.open();
    own.fanout().add(
        {.topic = "late",
         .work_key = "k",
         .cron = "0 0 1 1 *",
         .every = minutes{10},
         .jitter = seconds{0},
         .settle = settle},
        [](const FanoutPlan&) { return FanoutCandidates(std::vector<FanoutCandidate>{}); });
  }
  std::size_t plan() {
    return fanout
        .enqueue_due({.topic = "late", .work_key = "k"},
                     std::vector<FanoutCandidate>{{.shard_key = "s"}})
        .enqueued;
  }
  /// Completes the only slice, and returns it.
  FanoutSlice complete(WallTime* created_at = nullptr) {
    const auto claimed = claim();
    EXPECT_THAT(claimed, SizeIs(1));
    const auto slice = FanoutSlice::from(claimed.at(0).message);
    if (created_at != nullptr) *created_at = claimed.at(0).message.created_at;
    EXPECT_TRUE(fanout.mark_completed(slice));
    EXPECT_EQ(platform.outbox().ack(owner, std::vector{claimed.at(0).claim}), 1U);
    return slice;
  }
};
DOVETAIL_CONTRACT(FanoutSettleContract);

TEST_P(FanoutSettleContract, AWindowEndsBeforeItsMessageByTheTimeToSettle) {
  add(minutes{2});
  EXPECT_EQ(fanout.policies("late").at(0).settle, minutes{2});
  ASSERT_EQ(plan(), 1U);
  WallTime created_at;
  const auto first = complete(&created_at);
  EXPECT_EQ(first.window_end, created_at - minutes{2});
  // A row of this time may be committed within two minutes: the next window contains it.
  backend.advance(minutes{9});
  EXPECT_EQ(plan(), 0U) << "it is not due earlier";
  backend.advance(minutes{1});
  ASSERT_EQ(plan(), 1U);
  const auto second = complete(&created_at);
  EXPECT_EQ(second.window_start, first.window_end);
  EXPECT_EQ(second.window_end, created_at - minutes{2});
}

TEST_P(FanoutSettleContract, ALongerTimeToSettleMakesNoWindowEndBeforeItsStart) {
  add(seconds{0});
  ASSERT_EQ(plan(), 1U);
  WallTime created_at;
  const auto first = complete(&created_at);
  EXPECT_EQ(first.window_end, created_at) << "the default";
  add(hours{1});
  backend.advance(minutes{10});
  EXPECT_EQ(plan(), 0U);
  backend.advance(hours{1} - minutes{1});
  EXPECT_EQ(plan(), 0U);
  backend.advance(minutes{2});
  ASSERT_EQ(plan(), 1U);
  auto slice = complete();
  EXPECT_EQ(slice.window_start, first.window_end);
  EXPECT_GE(slice.window_end, first.window_end);
  EXPECT_THROW(add(hours{25}), std::out_of_range);
  EXPECT_THROW(add(seconds{-1}), std::out_of_range);
}

TEST(FanoutSettle, AWindowIsEmptyRatherThanNegative) {
  const Message message{.payload = R"({"topic":"t","work_key":"k","shard_key":"s",)"
                                   R"("window_start":"2026-01-31T09:30:00Z","settle_ms":60000})",
                        .created_at = std::chrono::sys_days{std::chrono::year{2026} / 1 / 31} +
                                      hours{9} + minutes{30} + seconds{30}};
  const auto slice = FanoutSlice::from(message);
  EXPECT_EQ(slice.window_end, slice.window_start);
}

// --- shards that have vanished

TEST_P(FanoutWindowsContract, CursorsOfVanishedShardsArePurged) {
  round({"gone", "lives"});
  complete_all();
  backend.advance(hours{2});
  EXPECT_EQ(round({"lives"}).enqueued, 1U);
  complete_all();
  EXPECT_EQ(fanout.purge_cursors("etl", {}, hours{2}), 0U)
      << "it has been due for less: every and jitter count";
  EXPECT_EQ(fanout.purge_cursors("etl", {}, hours{1}), 1U);
  EXPECT_THAT(shards_with_cursors(), ElementsAre("lives"));
  EXPECT_EQ(fanout.purge_cursors("etl", {}, hours{1}), 0U);
  // A shard that returns has no window_start.
  EXPECT_EQ(round({"gone"}).enqueued, 1U);
  EXPECT_FALSE(FanoutSlice::from(claim().at(0).message).window_start);
}

TEST_P(FanoutWindowsContract, CursorsWithAMessageOrADeadLetterAreNotPurged) {
  round({"failed", "in progress", "ready"});
  auto claimed = claim(2);
  ASSERT_THAT(claimed, SizeIs(2));
  platform.outbox().fail(owner, std::vector{claimed[0].claim}, "broken");
  backend.advance(hours{20});
  EXPECT_EQ(fanout.purge_cursors("etl", {}, seconds{0}), 0U);
  EXPECT_THAT(shards_with_cursors(), SizeIs(3));
  static_cast<void>(platform.outbox().replay(DeadLetterFilter{}));
  EXPECT_EQ(platform.outbox().ack(owner, std::vector{claimed[1].claim}), 1U);
  EXPECT_EQ(fanout.purge_cursors("etl", {}, seconds{0}), 1U) << "acked without a completion";
}

TEST_P(FanoutWindowsContract, APurgeMayBeOfOneWorkKeyOfARemovedFanout) {
  fanout.add({.topic = "etl", .cron = "0 0 1 1 *", .every = hours{240}},
             [](const FanoutPlan&) { return FanoutCandidates(std::vector<FanoutCandidate>{}); });
  round({"a", "b"});
  round({"a"}, "vendors");
  complete_all();
  backend.advance(hours{1});
  EXPECT_EQ(fanout.purge_cursors("etl", "vendors", seconds{1}), 0U) << "every is ten days";
  EXPECT_TRUE(fanout.remove("etl", {}));
  EXPECT_EQ(fanout.purge_cursors("etl", "vendors", seconds{1}), 1U);
  EXPECT_EQ(fanout.purge_cursors("other", {}, seconds{1}), 0U);
  EXPECT_THAT(shards_with_cursors(), ElementsAre("a", "b"));
  EXPECT_THROW(fanout.purge_cursors("etl", {}, seconds{-1}), std::out_of_range);
}

TEST_P(FanoutWindowsContract, APurgeExaminesCursorsInPages) {
  std::vector<std::string> shards;
  for (int i = 0; i < 25'000; ++i) shards.push_back(std::to_string(i));
  round(shards);
  backend.sql("update " + backend.table("fanout_cursor") + " set message_id = null");
  backend.advance(hours{24});
  EXPECT_EQ(fanout.purge_cursors("etl", {}, hours{1}), 25'000U);
  EXPECT_THAT(shards_with_cursors(), IsEmpty());
}

}  // namespace
}  // namespace dovetail::testing
