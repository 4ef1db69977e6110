// From which place in the queue a claim begins, and when it scans the queue from its start.
#include "runtime/queue_scan.hpp"

#include <gtest/gtest.h>

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Reason = QueueScan::Reason;
using Outcome = QueueScan::Outcome;

constexpr auto usual_lane = static_cast<std::size_t>(-storage::lowest_priority);

storage::QueueMark mark_at(int second) {
  return {.ready_at = WallTime{seconds{1'000'000 + second}}, .id = {}};
}

storage::Claimed passed_up_to(int second) {
  storage::Claimed claimed;
  for (auto& mark : claimed.passed) mark = mark_at(second);
  return claimed;
}

storage::Claimed one_message_at(int second) {
  storage::Claimed claimed;
  storage::ClaimedEntry entry;
  entry.ready_at = mark_at(second).ready_at;
  entry.claimed.claim.id = MessageId::generate();
  claimed.entries.push_back(std::move(entry));
  return claimed;
}

/// A scan of the queue, and its claims one after the other.
struct Claims {
  QueueScan scan{};
  MonoTime now = MonoTime{} + std::chrono::hours{1};
  std::uint64_t trips = 0;

  PlannedClaim begin(Reason reason) {
    PlannedClaim claim;
    claim.trip = ++trips;
    claim.wanted = 10;
    claim.alone = true;
    scan.begin(claim, reason, now);
    return claim;
  }
  Outcome end(const PlannedClaim& claim, const storage::Claimed& claimed,
              milliseconds took = milliseconds{0}) {
    const auto sent_at = now;
    now += took;
    return scan.end(claim, claimed, sent_at, now);
  }
};

std::optional<WallTime> start_of(const PlannedClaim& claim) {
  if (!claim.after || !(*claim.after)[usual_lane]) return std::nullopt;
  return (*claim.after)[usual_lane]->ready_at;
}

struct ScanRow {
  std::string name;
  milliseconds last_scan_took{};
  milliseconds since_last_scan{};
  Reason reason = Reason::poll;
  bool scans = false;
};

class ScanDecision : public ::testing::TestWithParam<ScanRow> {};

TEST_P(ScanDecision, DependsOnTheReasonAndTheCostOfTheLastScan) {
  const auto& row = GetParam();
  Claims claims;
  claims.end(claims.begin(Reason::rung), one_message_at(5), row.last_scan_took);
  claims.now += row.since_last_scan;
  const auto claim = claims.begin(row.reason);
  EXPECT_EQ(claim.scans, row.scans);
  EXPECT_EQ(start_of(claim), row.scans ? std::nullopt : std::optional{mark_at(5).ready_at});
}

INSTANTIATE_TEST_SUITE_P(
    QueueScan, ScanDecision,
    ::testing::Values(ScanRow{"a_poll_scans_if_that_is_cheap", milliseconds{0}, milliseconds{1},
                              Reason::poll, true},
                      ScanRow{"a_poll_spares_a_long_scan", milliseconds{100}, milliseconds{2'000},
                              Reason::poll, false},
                      ScanRow{"a_long_scan_gets_its_share", milliseconds{100}, milliseconds{6'000},
                              Reason::poll, true},
                      ScanRow{"a_burst_reads_on_within_a_second", milliseconds{0},
                              milliseconds{900}, Reason::more, false},
                      ScanRow{"a_burst_scans_after_a_second", milliseconds{0}, milliseconds{1'000},
                              Reason::more, true},
                      ScanRow{"a_burst_does_not_put_off_a_long_scan", milliseconds{100},
                              milliseconds{6'000}, Reason::more, true},
                      ScanRow{"a_new_message_waits_for_a_cheap_scan", milliseconds{2},
                              milliseconds{1'000}, Reason::rung, true},
                      ScanRow{"a_new_message_puts_off_a_long_scan", milliseconds{100},
                              milliseconds{6'000}, Reason::rung, false}),
    [](const auto& row) { return row.param.name; });

TEST(QueueScan, ALongScanIsPutOffOnlyOnce) {
  Claims claims;
  claims.end(claims.begin(Reason::rung), one_message_at(5), milliseconds{100});
  claims.now += seconds{60};
  EXPECT_FALSE(claims.begin(Reason::rung).scans);
  EXPECT_TRUE(claims.begin(Reason::rung).scans);
}

TEST(QueueScan, AnUnfinishedScanContinuesAtItsPlace) {
  Claims claims;
  auto part = passed_up_to(20);
  part.unfinished = true;
  EXPECT_EQ(claims.end(claims.begin(Reason::rung), part), Outcome::unfinished);
  EXPECT_TRUE(claims.scan.is_unfinished());
  const auto claim = claims.begin(Reason::poll);
  EXPECT_EQ(start_of(claim), mark_at(20).ready_at);
  EXPECT_FALSE(claims.scan.is_unfinished());
  EXPECT_EQ(claims.end(claim, passed_up_to(30)), Outcome::complete);
}

TEST(QueueScan, AClaimWithoutMessagesAfterTheMarksIsFollowedByAScanThatIsDue) {
  Claims claims;
  claims.end(claims.begin(Reason::rung), one_message_at(5));
  EXPECT_EQ(claims.end(claims.begin(Reason::more), {}), Outcome::scan_follows);
  EXPECT_TRUE(claims.begin(Reason::more).scans);
}

TEST(QueueScan, AFailedClaimIsFollowedByAScan) {
  Claims claims;
  claims.end(claims.begin(Reason::rung), one_message_at(5));
  claims.scan.cancel();
  EXPECT_TRUE(claims.begin(Reason::more).scans);
}

TEST(QueueScan, TheMessagesOfStreamsSetNoMarks) {
  Claims claims{.scan = QueueScan{/*of_streams=*/true}};
  claims.end(claims.begin(Reason::rung), one_message_at(5));
  EXPECT_TRUE(claims.begin(Reason::more).scans) << "there is no mark to begin at";
}

}  // namespace
}  // namespace dovetail::runtime
