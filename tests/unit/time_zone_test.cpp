#include "dovetail/time_zone.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/posix_zone.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using std::chrono::local_days;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::year;
using ::testing::HasSubstr;
using Kind = LocalInstants::Kind;

constexpr WallTime spring = sys_days{year{2026} / 3 / 29} + 1h;   // Berlin: 02:00 becomes 03:00
constexpr WallTime autumn = sys_days{year{2026} / 10 / 25} + 1h;  // Berlin: 03:00 becomes 02:00

TimeZone berlin() {
  return TimeZone::find("Europe/Berlin");
}

TEST(TimeZone, UtcNeverChanges) {
  const auto zone = TimeZone::utc();
  EXPECT_EQ(zone.name(), "UTC");
  EXPECT_EQ(zone, TimeZone::find("UTC"));
  EXPECT_EQ(zone.period_at(spring).offset, 0s);
  EXPECT_EQ(zone.period_at(spring), zone.period_at(sys_days{year{9999} / 12 / 31}));
  EXPECT_EQ(zone.to_local(spring), local_days{year{2026} / 3 / 29} + 1h);
  EXPECT_EQ(zone.instants_of(local_days{year{2026} / 3 / 29} + 1h),
            (LocalInstants{Kind::once, spring, spring}));
}

TEST(TimeZone, TellsThePeriodBetweenTwoClockChanges) {
  const ZonePeriod summer{spring, autumn, 2h};
  EXPECT_EQ(berlin().period_at(spring), summer);
  EXPECT_EQ(berlin().period_at(autumn - 1us), summer);
  EXPECT_EQ(berlin().period_at(spring - 1us).offset, 1h);
  EXPECT_EQ(berlin().period_at(spring - 1us).end, spring);
  EXPECT_EQ(berlin().period_at(autumn).begin, autumn);
}

TEST(TimeZone, ReadsTheLocalClockToTheSecond) {
  EXPECT_EQ(berlin().to_local(spring - 1us), local_days{year{2026} / 3 / 29} + 1h + 59min + 59s);
  EXPECT_EQ(berlin().to_local(spring), local_days{year{2026} / 3 / 29} + 3h);
  // The same before 1970, where rounding down is not rounding towards zero.
  EXPECT_EQ(TimeZone::utc().to_local(WallTime{-1us}), local_days{year{1969} / 12 / 31} + 86'399s);
}

TEST(TimeZone, KnowsThatAGapSkipsTimes) {
  const auto day = local_days{year{2026} / 3 / 29};
  const LocalInstants after_the_gap{Kind::skipped, spring, spring};
  EXPECT_EQ(berlin().instants_of(day + 1h + 59min + 59s).kind, Kind::once);
  EXPECT_EQ(berlin().instants_of(day + 2h), after_the_gap);
  EXPECT_EQ(berlin().instants_of(day + 2h + 59min + 59s), after_the_gap);
  EXPECT_EQ(berlin().instants_of(day + 3h), (LocalInstants{Kind::once, spring, spring}));
}

TEST(TimeZone, KnowsThatAnOverlapRepeatsTimes) {
  const auto day = local_days{year{2026} / 10 / 25};
  EXPECT_EQ(berlin().instants_of(day + 1h + 59min + 59s).kind, Kind::once);
  EXPECT_EQ(berlin().instants_of(day + 2h), (LocalInstants{Kind::twice, autumn - 1h, autumn}));
  EXPECT_EQ(berlin().instants_of(day + 2h + 30min),
            (LocalInstants{Kind::twice, autumn - 30min, autumn + 30min}));
  EXPECT_EQ(berlin().instants_of(day + 3h), (LocalInstants{Kind::once, autumn + 1h, autumn + 1h}));
}

TEST(TimeZone, OfAnotherNameIsAnotherZone) {
  EXPECT_EQ(TimeZone::find("Asia/Kolkata").name(), "Asia/Kolkata");
  EXPECT_EQ(TimeZone::find("Asia/Calcutta").period_at(spring).offset, 5h + 30min);
  EXPECT_NE(TimeZone::find("Asia/Calcutta"), TimeZone::find("Asia/Kolkata"));
}

TEST(TimeZone, RefusesUnknownNames) {
  using namespace std::string_literals;
  for (const auto& name :
       {"Europe/Atlantis"s, ""s, "europe/berlin"s, " Europe/Berlin"s, "Europe/Berlin "s, "Europe"s,
        "CEST"s, "+01:00"s, "../../etc/passwd"s, "/usr/share/zoneinfo/UTC"s, "localtime"s,
        "posixrules"s, "posix/Europe/Berlin"s, "right/Europe/Berlin"s, "tzdata.zi"s,
        "Europe/Berlin\0"s, "\xFF\xFE"s, std::string(10'000, 'x')}) {
    try {
      (void)TimeZone::find(name);
      ADD_FAILURE() << name;
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), HasSubstr("unknown time zone \""));
      EXPECT_THAT(e.what(), HasSubstr("such as Europe/Berlin"));
      EXPECT_LT(std::string{e.what()}.size(), 200U);
    }
  }
}

TEST(TimeZone, RefusesInstantsThatNoEngineStores) {
  for (const auto& zone : {TimeZone::utc(), berlin()}) {
    EXPECT_THROW((void)zone.period_at(WallTime::min()), std::out_of_range);
    EXPECT_THROW((void)zone.to_local(WallTime::max()), std::out_of_range);
    EXPECT_THROW((void)zone.instants_of(LocalTime::min()), std::out_of_range);
    EXPECT_THROW((void)zone.instants_of(LocalTime::max()), std::out_of_range);
    EXPECT_NO_THROW((void)zone.to_local(sys_days{year{1} / 1 / 1}));
    EXPECT_NO_THROW((void)zone.to_local(sys_days{year{9999} / 12 / 31} + 86'399s));
  }
}

TEST(TimeZone, DatabaseIsThere) {
  EXPECT_NO_THROW(require_time_zone_database());
}

// --- after the last change that the zone's file lists

struct FutureChange {
  const char* zone;
  WallTime at;
  int hours_before;
  int hours_after;
};

const std::vector<FutureChange> future_changes{
    {"Europe/Berlin", sys_days{2040y / 3 / 25} + 1h, 1, 2},
    {"Europe/Berlin", sys_days{2040y / 10 / 28} + 1h, 2, 1},
    {"America/New_York", sys_days{2050y / 3 / 13} + 7h, -5, -4},
    {"America/New_York", sys_days{2050y / 11 / 6} + 6h, -4, -5},
    {"Australia/Sydney", sys_days{2045y / 4 / 1} + 16h, 11, 10},
    {"Australia/Sydney", sys_days{2045y / 9 / 30} + 16h, 10, 11},
    {"Europe/Dublin", sys_days{2060y / 3 / 28} + 1h, 0, 1},
    {"Europe/Dublin", sys_days{2060y / 10 / 31} + 1h, 1, 0},
    {"Asia/Gaza", sys_days{2100y / 3 / 27} + 0h, 2, 3},
    {"Asia/Gaza", sys_days{2100y / 10 / 29} + 23h, 3, 2},
};

TEST(TimeZoneRule, GivesTheChangesOfYearsThatTheFileDoesNotList) {
  for (const auto& [name, at, before, after] : future_changes) {
    const auto zone = TimeZone::find(name);
    const auto first = zone.period_at(at - 1s);
    const auto second = zone.period_at(at);
    EXPECT_EQ(first.offset, std::chrono::hours{before}) << name;
    EXPECT_EQ(first.end, at) << name;
    EXPECT_EQ(second.offset, std::chrono::hours{after}) << name;
    EXPECT_EQ(second.begin, at) << name;
  }
}

TEST(TimeZoneRule, KnowsGapsAndOverlapsThere) {
  for (const auto& [name, at, before, after] : future_changes) {
    const auto zone = TimeZone::find(name);
    const auto earlier = std::min(before, after);
    const LocalTime middle{std::chrono::floor<seconds>(at).time_since_epoch() +
                           std::chrono::hours{earlier} + 30min};
    const auto found = zone.instants_of(middle);
    EXPECT_EQ(found.kind, before < after ? Kind::skipped : Kind::twice) << name;
    EXPECT_EQ(found.first, before < after ? at : at - 30min) << name;
    EXPECT_EQ(found.second, before < after ? at : at + 30min) << name;
    EXPECT_EQ(zone.instants_of(middle - 2h).kind, Kind::once) << name;
    EXPECT_EQ(zone.instants_of(middle + 2h).kind, Kind::once) << name;
  }
}

TEST(TimeZoneRule, GoesOnWhereTheFileEnds) {
  for (const auto* name : {"Europe/Berlin", "America/New_York", "Australia/Sydney",
                           "Africa/Casablanca", "Asia/Tokyo"}) {
    const auto zone = TimeZone::find(name);
    auto period = zone.period_at(sys_days{2030y / 1 / 1});
    while (period.end < sys_days{2100y / 1 / 1}) {
      const auto next = zone.period_at(period.end);
      ASSERT_EQ(next.begin, period.end) << name;
      ASSERT_GT(next.end, next.begin) << name;
      period = next;
    }
  }
}

TEST(PosixZone, RefusesWhatIsNoRuleWithSummerTime) {
  for (const auto* text :
       {"", "UTC0", "<+01>-1", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "C-1CEST,M3.5.0,M10.5.0",
        "CET-1CEST,J0,J365", "CET-1CEST,M3.5.0,M10.5.0x", "CET-25CEST,M3.5.0,M10.5.0"}) {
    EXPECT_FALSE(core::PosixZone::parse(text)) << text;
  }
}

TEST(PosixZone, CountsDaysOfTheYearWithAndWithoutTheLeapDay) {
  const auto julian = core::PosixZone::parse("AAA0BBB,J60/0,J300/0");
  const auto from_zero = core::PosixZone::parse("AAA0BBB,59/0,299/0");
  ASSERT_TRUE(julian && from_zero);
  EXPECT_EQ(julian->period_at(sys_days{2041y / 6 / 1}).begin, sys_days{2041y / 3 / 1});
  EXPECT_EQ(julian->period_at(sys_days{2040y / 6 / 1}).begin, sys_days{2040y / 3 / 1});
  EXPECT_EQ(from_zero->period_at(sys_days{2041y / 6 / 1}).begin, sys_days{2041y / 3 / 1});
  EXPECT_EQ(from_zero->period_at(sys_days{2040y / 6 / 1}).begin, sys_days{2040y / 2 / 29});
}

TEST(PosixZone, MayHaveSummerTimeAllTheYear) {
  const auto zone = core::PosixZone::parse("XXX3EDT4,0/0,J365/23");
  ASSERT_TRUE(zone);
  for (const auto month : {1U, 6U, 12U}) {
    EXPECT_EQ(zone->period_at(sys_days{2045y / std::chrono::month{month} / 1}).offset, -4h);
  }
}

}  // namespace
