#include "dovetail/time_zone.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using std::chrono::local_days;
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
  // Also before 1970, where cutting off is not rounding towards zero.
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
  for (const auto& name : {"Europe/Atlantis"s, ""s, "europe/berlin"s, " Europe/Berlin"s, "Europe/Berlin "s,
                           "Europe"s, "CEST"s, "+01:00"s, "../../etc/passwd"s, "/usr/share/zoneinfo/UTC"s,
                           "localtime"s, "posixrules"s, "posix/Europe/Berlin"s, "right/Europe/Berlin"s,
                           "tzdata.zi"s, "Europe/Berlin\0"s, "\xFF\xFE"s, std::string(10'000, 'x')}) {
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

}  // namespace
