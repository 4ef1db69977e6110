#include "dovetail/cron.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// `2026-03-29 02:30:00`
LocalTime local(const std::string& text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  EXPECT_EQ(
      std::sscanf(text.c_str(), "%d-%u-%u %d:%d:%d", &year, &month, &day, &hour, &minute, &second),
      6)
      << text;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month},
                                         std::chrono::day{day}};
  return std::chrono::local_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
         std::chrono::seconds{second};
}

WallTime utc(const std::string& text) {
  return WallTime{local(text).time_since_epoch()};
}

std::string shown(WallTime time) {
  auto text = to_string(time).substr(0, 19);
  text[10] = ' ';
  return text;
}

std::string shown(LocalTime time) {
  return shown(WallTime{time.time_since_epoch()});
}

CronExpression cron(const std::string& text) {
  return CronExpression::parse(text);
}

std::vector<std::string> following(const CronExpression& expression, const std::string& after,
                                   std::size_t count) {
  std::vector<std::string> found;
  for (auto next = expression.next_after(local(after)); next && found.size() < count;
       next = expression.next_after(*next)) {
    found.push_back(shown(*next));
  }
  return found;
}

std::vector<std::string> preceding(const CronExpression& expression, const std::string& before,
                                   std::size_t count) {
  std::vector<std::string> found;
  for (auto next = expression.previous_before(local(before)); next && found.size() < count;
       next = expression.previous_before(*next)) {
    found.insert(found.begin(), shown(*next));
  }
  return found;
}

// Occurrences on a clock that is never changed

struct Table {
  std::string expression;
  std::string after;
  std::vector<std::string> expected;
};

void expect_occurrences(const Table& row) {
  SCOPED_TRACE(row.expression);
  const auto expression = cron(row.expression);
  EXPECT_THAT(following(expression, row.after, row.expected.size()),
              ElementsAreArray(row.expected));
  const auto last = shown(local(row.expected.back()) + 1s);
  EXPECT_THAT(preceding(expression, last, row.expected.size()), ElementsAreArray(row.expected));
}

TEST(CronExpression, FindsTheOccurrencesOfEveryKindOfField) {
  const std::vector<Table> rows{
      {"*/5 * * * *", "2026-01-01 00:00:00", {"2026-01-01 00:05:00", "2026-01-01 00:10:00"}},
      {"*/7 * * * *", "2026-01-01 00:49:00", {"2026-01-01 00:56:00", "2026-01-01 01:00:00"}},
      {"5/15 * * * *",
       "2026-01-01 00:00:00",
       {"2026-01-01 00:05:00", "2026-01-01 00:20:00", "2026-01-01 00:35:00", "2026-01-01 00:50:00",
        "2026-01-01 01:05:00"}},
      {"10-50/20 * * * *",
       "2026-01-01 00:00:00",
       {"2026-01-01 00:10:00", "2026-01-01 00:30:00", "2026-01-01 00:50:00",
        "2026-01-01 01:10:00"}},
      {"0 22-2 * * *",
       "2026-01-01 02:00:00",
       {"2026-01-01 22:00:00", "2026-01-01 23:00:00", "2026-01-02 00:00:00", "2026-01-02 01:00:00",
        "2026-01-02 02:00:00", "2026-01-02 22:00:00"}},
      {"0 20-3/3 * * *",
       "2026-01-01 03:00:00",
       {"2026-01-01 20:00:00", "2026-01-01 23:00:00", "2026-01-02 02:00:00"}},
      {"59 59 23 31 12 *", "2026-01-01 00:00:00", {"2026-12-31 23:59:59", "2027-12-31 23:59:59"}},
      {"15,45 30 6 * * *",
       "2026-01-01 00:00:00",
       {"2026-01-01 06:30:15", "2026-01-01 06:30:45", "2026-01-02 06:30:15"}},
      {"0 0 28-3 * *",
       "2026-02-26 00:00:00",
       {"2026-02-28 00:00:00", "2026-03-01 00:00:00", "2026-03-02 00:00:00", "2026-03-03 00:00:00",
        "2026-03-28 00:00:00"}},
      {"0 0 1 NOV-feb *",
       "2026-10-01 00:00:00",
       {"2026-11-01 00:00:00", "2026-12-01 00:00:00", "2027-01-01 00:00:00", "2027-02-01 00:00:00",
        "2027-11-01 00:00:00"}},
      {"0 0 31 * *",
       "2026-01-31 00:00:00",
       {"2026-03-31 00:00:00", "2026-05-31 00:00:00", "2026-07-31 00:00:00"}},
      {"0 0 29 2 *", "2026-01-01 00:00:00", {"2028-02-29 00:00:00", "2032-02-29 00:00:00"}},
      {"0 0 29 2 *", "2096-03-01 00:00:00", {"2104-02-29 00:00:00"}},
  };
  for (const auto& row : rows) expect_occurrences(row);
}

TEST(CronExpression, CountsSundayAsZeroAndAsSeven) {
  const std::vector<std::string> sundays{"2026-01-04 00:00:00", "2026-01-11 00:00:00"};
  for (const auto* text :
       {"0 0 * * 0", "0 0 * * 7", "0 0 * * sun", "0 0 * * 7-7", "0 0 * * 7-0", "0 0 ? * Sun"}) {
    expect_occurrences({text, "2026-01-01 00:00:00", sundays});
  }
  EXPECT_EQ(cron("0 0 * * 5-7"), cron("0 0 * * FRI,SAT,SUN"));
  EXPECT_EQ(cron("0 0 * * 7-2"), cron("0 0 * * SUN-TUE"));
  EXPECT_EQ(cron("0 0 * * FRI-MON"), cron("0 0 * * 5,6,0,1"));
  EXPECT_EQ(cron("0 0 * * 1/2"), cron("0 0 * * MON,WED,FRI"));
  EXPECT_EQ(cron("0 0 1 * 0-7"), cron("0 0 1 * SUN-SAT"));
}

TEST(CronExpression, KnowsLastDaysWorkingDaysAndNthWeekdays) {
  const std::vector<Table> rows{
      {"0 0 L * *",
       "2027-12-31 00:00:00",
       {"2028-01-31 00:00:00", "2028-02-29 00:00:00", "2028-03-31 00:00:00",
        "2028-04-30 00:00:00"}},
      {"0 0 L-3 * *", "2026-01-01 00:00:00", {"2026-01-28 00:00:00", "2026-02-25 00:00:00"}},
      {"0 0 L-30 * *", "2026-01-02 00:00:00", {"2026-03-01 00:00:00", "2026-05-01 00:00:00"}},
      // The 15th of August 2026 is a Saturday, the 15th of November a Sunday.
      {"0 0 15W * *",
       "2026-08-01 00:00:00",
       {"2026-08-14 00:00:00", "2026-09-15 00:00:00", "2026-10-15 00:00:00",
        "2026-11-16 00:00:00"}},
      // Saturday the 1st and Sunday the 1st stay in their months.
      {"0 0 1W * *",
       "2026-07-02 00:00:00",
       {"2026-08-03 00:00:00", "2026-09-01 00:00:00", "2026-10-01 00:00:00",
        "2026-11-02 00:00:00"}},
      // Saturday the 31st and Sunday the 31st also stay in their months.
      {"0 0 31W * *",
       "2026-01-31 00:00:00",
       {"2026-03-31 00:00:00", "2026-05-29 00:00:00", "2026-07-31 00:00:00", "2026-08-31 00:00:00",
        "2026-10-30 00:00:00"}},
      {"0 0 LW * *",
       "2026-01-01 00:00:00",
       {"2026-01-30 00:00:00", "2026-02-27 00:00:00", "2026-03-31 00:00:00"}},
      {"0 0 l-1w * *",
       "2026-01-01 00:00:00",
       {"2026-01-30 00:00:00", "2026-02-27 00:00:00", "2026-03-30 00:00:00"}},
      {"0 0 1,15,L 2 *",
       "2026-01-01 00:00:00",
       {"2026-02-01 00:00:00", "2026-02-15 00:00:00", "2026-02-28 00:00:00"}},
      {"0 0 ? * L", "2026-01-01 00:00:00", {"2026-01-03 00:00:00", "2026-01-10 00:00:00"}},
      {"0 0 ? * 5L", "2026-01-01 00:00:00", {"2026-01-30 00:00:00", "2026-02-27 00:00:00"}},
      {"0 0 ? * FRIL", "2026-01-01 00:00:00", {"2026-01-30 00:00:00", "2026-02-27 00:00:00"}},
      {"0 0 ? * 7L", "2026-01-01 00:00:00", {"2026-01-25 00:00:00", "2026-02-22 00:00:00"}},
      {"0 0 ? * MON#2", "2026-01-01 00:00:00", {"2026-01-12 00:00:00", "2026-02-09 00:00:00"}},
      {"0 0 ? * 2#1", "2026-01-01 00:00:00", {"2026-01-06 00:00:00", "2026-02-03 00:00:00"}},
      {"0 0 ? * SUN#5",
       "2026-01-01 00:00:00",
       {"2026-03-29 00:00:00", "2026-05-31 00:00:00", "2026-08-30 00:00:00"}},
      {"0 0 ? * MON#1,friL",
       "2026-01-01 00:00:00",
       {"2026-01-05 00:00:00", "2026-01-30 00:00:00", "2026-02-02 00:00:00"}},
      {"0 0 ? 2 MON#5",
       "2026-01-01 00:00:00",
       {"2044-02-29 00:00:00", "2072-02-29 00:00:00", "2112-02-29 00:00:00"}},
  };
  for (const auto& row : rows) expect_occurrences(row);
}

TEST(CronExpression, NeedsOneOfDayAndWeekdayWhenBothAreRestricted) {
  const std::vector<Table> rows{
      {"0 0 1 * MON",
       "2026-01-01 00:00:00",
       {"2026-01-05 00:00:00", "2026-01-12 00:00:00", "2026-01-19 00:00:00", "2026-01-26 00:00:00",
        "2026-02-01 00:00:00", "2026-02-02 00:00:00"}},
      {"0 0 13 * ?", "2026-01-01 00:00:00", {"2026-01-13 00:00:00", "2026-02-13 00:00:00"}},
      // A day field that begins with a star is unrestricted, and so must match as well.
      {"0 0 */2 * MON",
       "2026-01-01 00:00:00",
       {"2026-01-05 00:00:00", "2026-01-19 00:00:00", "2026-02-09 00:00:00"}},
      {"0 0 13 * */5",
       "2026-01-01 00:00:00",
       {"2026-02-13 00:00:00", "2026-03-13 00:00:00", "2026-09-13 00:00:00"}},
      {"0 0 1-31/2 * MON",
       "2026-01-03 00:00:00",
       {"2026-01-05 00:00:00", "2026-01-07 00:00:00", "2026-01-09 00:00:00", "2026-01-11 00:00:00",
        "2026-01-12 00:00:00"}},
  };
  for (const auto& row : rows) expect_occurrences(row);
}

TEST(CronExpression, WordsStandForFields) {
  const std::vector<std::pair<std::string, std::string>> words{
      {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
      {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
      {"@hourly", "0 * * * *"}, {"@minutely", "* * * * *"}, {"@secondly", "* * * * * *"},
      {" @DAILY\t", "@daily"},
  };
  for (const auto& [word, fields] : words) EXPECT_EQ(cron(word), cron(fields)) << word;
}

TEST(CronExpression, EndsWithTheYears1And9999) {
  const auto daily = cron("@daily");
  EXPECT_EQ(daily.next_after(LocalTime::min()), local("0001-01-01 00:00:00"));
  EXPECT_EQ(daily.next_after(local("9999-12-31 00:00:00")), std::nullopt);
  EXPECT_EQ(daily.next_after(LocalTime::max()), std::nullopt);
  EXPECT_EQ(daily.previous_before(LocalTime::max()), local("9999-12-31 00:00:00"));
  EXPECT_EQ(daily.previous_before(local("0001-01-01 00:00:00")), std::nullopt);
  EXPECT_EQ(daily.previous_before(LocalTime::min()), std::nullopt);
}

TEST(CronExpression, EqualityIsOfMeaning) {
  EXPECT_EQ(cron("0 9 * * MON"), cron(" 0  0 9\t* * 1 "));
  EXPECT_NE(cron("0 9 * * MON"), cron("0 9 * * TUE"));
  EXPECT_NE(cron("0 * * * *"), cron("0 0-23 * * *")) << "they differ when clocks change";
  EXPECT_EQ(cron(" 0  0 9\t* * 1 ").text(), "0  0 9\t* * 1");
}

// The specification's examples

TEST(CronExpression, RunsTheExamplesOfTheSpecification) {
  const std::string thursday = "2026-01-01 00:00:00";
  const std::vector<Table> rows{
      {"0 */5 * * * *", thursday, {"2026-01-01 00:05:00", "2026-01-01 00:10:00"}},
      {"0 0 * * * *", thursday, {"2026-01-01 01:00:00", "2026-01-01 02:00:00"}},
      {"0 30 2 * * *", thursday, {"2026-01-01 02:30:00", "2026-01-02 02:30:00"}},
      {"0 0 9 * * 1", thursday, {"2026-01-05 09:00:00", "2026-01-12 09:00:00"}},
      {"0 0 0 1 * *", thursday, {"2026-02-01 00:00:00", "2026-03-01 00:00:00"}},
      {"0 0 18 * * 1-5",
       thursday,
       {"2026-01-01 18:00:00", "2026-01-02 18:00:00", "2026-01-05 18:00:00"}},
      {"0 15 10,14 * * *",
       thursday,
       {"2026-01-01 10:15:00", "2026-01-01 14:15:00", "2026-01-02 10:15:00"}},
      {"0 0 8-17/2 * * *",
       thursday,
       {"2026-01-01 08:00:00", "2026-01-01 10:00:00", "2026-01-01 12:00:00", "2026-01-01 14:00:00",
        "2026-01-01 16:00:00", "2026-01-02 08:00:00"}},
      {"0 0 0 * * 6,0",
       thursday,
       {"2026-01-03 00:00:00", "2026-01-04 00:00:00", "2026-01-10 00:00:00"}},
      {"0 0 8 * * 1-5",
       thursday,
       {"2026-01-01 08:00:00", "2026-01-02 08:00:00", "2026-01-05 08:00:00"}},
      {"*/10 * * * *", thursday, {"2026-01-01 00:10:00", "2026-01-01 00:20:00"}},
      // Every 4 minutes, independent of its comment in the specification.
      {"0 */4 * * * *", thursday, {"2026-01-01 00:04:00", "2026-01-01 00:08:00"}},
  };
  for (const auto& row : rows) expect_occurrences(row);
}

// Descriptions

TEST(CronExpression, DescribesItselfInPlainEnglish) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"* * * * * *", "every second"},
      {"*/10 * * * * *", "every 10 seconds"},
      {"30 * * * * *", "at second 30 of every minute"},
      {"*/10 0-4 * * * *", "every 10 seconds of minutes 0 to 4 of every hour"},
      {"* * * * *", "every minute"},
      {"0 */5 * * * *", "every 5 minutes"},
      {"*/10 * * * *", "every 10 minutes"},
      {"0 */4 * * * *", "every 4 minutes"},
      {"*/7 * * * *", "every hour at every 7th minute from 0 to 56"},
      {"*/15 9-17 * * MON-FRI", "every 15 minutes of hours 9 to 17, Monday to Friday"},
      {"0 0 * * * *", "every hour"},
      {"30 * * * *", "every hour at minute 30"},
      {"0 */4 * * *", "at 00:00, 04:00, 08:00, 12:00, 16:00 and 20:00 every day"},
      {"0 */2 * * *", "every 2 hours"},
      {"20,40 */2 * * *", "every 2 hours at minutes 20 and 40"},
      {"0 30 2 * * *", "at 02:30 every day"},
      {"30 30 2 * * *", "at 02:30:30 every day"},
      {"0 0 9 * * 1", "at 09:00, Monday"},
      {"0 0 9 * * MON-FRI", "at 09:00, Monday to Friday"},
      {"0 0 0 * * 6,0", "at 00:00, Saturday and Sunday"},
      {"0 0 * * FRI-MON", "at 00:00, Friday to Monday"},
      {"30 2 1 * *", "at 02:30 on day 1 of the month"},
      {"0 0 1,15,L * *", "at 00:00 on days 1 and 15 of the month and the last day of the month"},
      {"0 0 15W * *", "at 00:00 on the working day nearest to day 15 of the month"},
      {"0 0 LW * *", "at 00:00 on the working day nearest to the last day of the month"},
      {"0 0 L-3 * *", "at 00:00 on the day 3 days before the last day of the month"},
      {"0 0 ? * FRIL", "at 00:00 on the last Friday of the month"},
      {"0 0 ? * MON#2", "at 00:00 on the second Monday of the month"},
      {"0 0 1 * MON", "at 00:00 on day 1 of the month, or on Monday"},
      {"0 0 1 6 MON", "at 00:00 on day 1 of the month, or on Monday, only in June"},
      {"0 0 */2 * MON",
       "at 00:00 on every 2nd day from 1 to 31 of the month, but only when that is Monday"},
      {"0 0 1 NOV-FEB *", "at 00:00 on day 1 of the month in November to February"},
      {"* * * 6 *", "every minute in June"},
      {"@yearly", "at 00:00 on day 1 of the month in January"},
  };
  for (const auto& [text, description] : rows)
    EXPECT_EQ(cron(text).describe(), description) << text;
}

// Refusals

struct Refusal {
  std::string expression;
  std::size_t position;
  std::string because;
};

void expect_refused(const Refusal& row) {
  try {
    const auto accepted = cron(row.expression);
    ADD_FAILURE() << row.expression << " was taken for: " << accepted.describe();
  } catch (const CronError& e) {
    EXPECT_EQ(e.position(), row.position) << e.what();
    EXPECT_THAT(e.what(), HasSubstr(row.because));
    EXPECT_THAT(e.what(), HasSubstr("position " + std::to_string(row.position)));
  }
}

TEST(CronExpression, SaysWhatIsWrongAndWhere) {
  const std::vector<Refusal> rows{
      {"60 * * * *", 1, "the minute must be 0 to 59, got '60'"},
      {"0 60 * * * *", 3, "the minute must be 0 to 59, got '60'"},
      {"60 0 * * * *", 1, "the second must be 0 to 59"},
      {"0 24 * * *", 3, "the hour must be 0 to 23"},
      {"0 0 0 * *", 5, "the day must be 1 to 31"},
      {"0 0 32 * *", 5, "the day must be 1 to 31"},
      {"0 0 1 13 *", 7, "the month must be 1 to 12 or JAN to DEC"},
      {"0 0 1 0 *", 7, "the month"},
      {"0 0 * * 8", 9, "the weekday must be 0 to 7 or SUN to SAT"},
      {"0 0 * * MON-8", 13, "the weekday"},
      {"99999999999999999999 * * * *", 1, "got '99999999999999999999'"},
      {"-1 * * * *", 1, "the minute"},
      {"1- * * * *", 3, "and is missing"},
      {"*/0 * * * *", 3, "the step of the minute field must be 1 to 59, got '0'"},
      {"*/60 * * * *", 3, "the step"},
      {"*/ * * * *", 3, "and is missing"},
      {"*/-5 * * * *", 3, "got '-'"},
      {"/5 * * * *", 1, "got '/'"},
      {"1-5/ * * * *", 5, "and is missing"},
      {"*/5/5 * * * *", 4, "unexpected '/' in the minute field"},
      {"1-2-3 * * * *", 4, "unexpected '-'"},
      {"** * * * *", 2, "unexpected '*'"},
      {"1,,2 * * * *", 3, "empty list element"},
      {",1 * * * *", 1, "empty list element"},
      {"1, * * * *", 3, "empty list element"},
      {"MON * * * *", 1, "the minute must be 0 to 59, got 'M'"},
      {"0 0 * * MONDAY", 12, "unexpected 'D' in the weekday field"},
      {"0 0 * * MO", 9, "the weekday must be"},
      {"0 0 * MON *", 7, "the month must be"},
      {"? * * * *", 1, "'?' stands only alone"},
      {"0 0 ?/2 * *", 5, "'?' stands only alone"},
      {"0 0 1,? * *", 7, "'?' stands only alone"},
      {"0 0 ? ? *", 7, "'?' stands only alone"},
      {"L * * * *", 1, "the minute"},
      {"0 0 L-31 * *", 7, "1 to 30"},
      {"0 0 L-0 * *", 7, "1 to 30"},
      {"0 0 L/2 * *", 6, "unexpected '/' in the day field"},
      {"0 0 5L * *", 6, "unexpected 'L' in the day field"},
      {"0 0 W * *", 5, "the day must be"},
      {"0 0 1-15W * *", 9, "unexpected 'W'"},
      {"0 0 15W-20 * *", 8, "unexpected '-'"},
      {"0 0 * * 5W", 10, "unexpected 'W' in the weekday field"},
      {"0 0 * * MON#0", 13, "1 to 5"},
      {"0 0 * * MON#6", 13, "1 to 5"},
      {"0 0 * * MON#", 13, "1 to 5"},
      {"0 0 * * MON-FRI#2", 16, "unexpected '#'"},
      {"0 0 * * MON-FRIL", 16, "unexpected 'L'"},
      {"", 1, "got 0"},
      {"   ", 4, "got 0"},
      {"* * * *", 8,
       "expected 5 fields (minute hour day month weekday) or 6 (second first), got 4"},
      {"* * * * * * *", 13, "got 7"},
      {"@reboot", 1, "not a time"},
      {" @every 5m", 11, "got 2"},
      {"@fortnightly", 1, "known are @yearly"},
      {"@", 1, "known are @yearly"},
      {std::string("0 0 \0 * *", 9), 5, "character"},
      {"0 0 1 1 *\n", 10, "character"},
      {"0 0 1 1 \xC3\xA4", 9, "character"},
      {"0 0 1 1 $", 9, "the weekday must be"},
      {std::string(256, '1'), 256, "longer than 255 characters"},
  };
  for (const auto& row : rows) expect_refused(row);
}

TEST(CronExpression, RefusesAtOnceWhatNeverOccurs) {
  for (const auto* text : {"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30W 2 *", "0 0 31W 4 ?",
                           "0 0 L-30 2 *", "0 0 L-30 4 *", "0 0 L-29W 2 *", "0 0 30,31 FEB *"}) {
    expect_refused({text, 5, "never"});
  }
  // These occur, some of them only in leap years.
  for (const auto* text : {"0 0 29 2 *", "0 0 29W 2 *", "0 0 * 2 MON#5", "0 0 L-28 2 *",
                           "0 0 30 2 MON", "0 0 29 2 */7", "0 0 31 4,5 *"}) {
    EXPECT_NO_THROW((void)cron(text)) << text;
  }
}

TEST(CronExpression, QuotesAnOddExpressionHarmlessly) {
  try {
    (void)cron(std::string("0 0 \0\x1B * *", 10));
    ADD_FAILURE();
  } catch (const CronError& e) {
    EXPECT_STREQ(
        e.what(),
        "cron expression \"0 0 ?? * *\", position 5: a character that no cron expression has");
  }
}

// Clock changes

std::vector<std::string> runs(const std::string& expression, const TimeZone& zone,
                              const std::string& from, const std::string& to) {
  std::vector<std::string> found;
  for (auto next = next_occurrence(cron(expression), zone, utc(from) - 1us);
       next && *next < utc(to); next = next_occurrence(cron(expression), zone, *next)) {
    found.push_back(shown(*next));
  }
  std::vector<std::string> backwards;
  for (auto last = previous_occurrence(cron(expression), zone, utc(to)); last && *last >= utc(from);
       last = previous_occurrence(cron(expression), zone, *last)) {
    backwards.insert(backwards.begin(), shown(*last));
  }
  EXPECT_EQ(found, backwards) << expression;
  return found;
}

using Runs = std::vector<std::string>;

TEST(CronOccurrence, OfAFixedHourInAGapIsRightAfterIt) {
  const auto berlin = TimeZone::find("Europe/Berlin");
  // 2026-03-29: 02:00 becomes 03:00 at 01:00 UTC.
  EXPECT_EQ(runs("30 2 * * *", berlin, "2026-03-28 00:00:00", "2026-03-31 00:00:00"),
            (Runs{"2026-03-28 01:30:00", "2026-03-29 01:00:00", "2026-03-30 00:30:00"}));
  EXPECT_EQ(runs("0 2 * * *", berlin, "2026-03-29 00:00:00", "2026-03-30 00:00:00"),
            (Runs{"2026-03-29 01:00:00"}));
}

TEST(CronOccurrence, OfSeveralTimesInOneGapIsOne) {
  const auto berlin = TimeZone::find("Europe/Berlin");
  EXPECT_EQ(runs("0,30 2 * * *", berlin, "2026-03-29 00:00:00", "2026-03-30 00:00:00"),
            (Runs{"2026-03-29 01:00:00"}));
  EXPECT_EQ(runs("*/5 2 * * *", berlin, "2026-03-29 00:00:00", "2026-03-30 00:00:00"),
            (Runs{"2026-03-29 01:00:00"}));
  // 03:00 is also a time of the job, and still there is one run.
  EXPECT_EQ(runs("0,30 2-3 * * *", berlin, "2026-03-29 00:00:00", "2026-03-30 00:00:00"),
            (Runs{"2026-03-29 01:00:00", "2026-03-29 01:30:00"}));
  EXPECT_EQ(runs("0 0-23 * * *", berlin, "2026-03-28 23:00:00", "2026-03-29 03:00:00"),
            (Runs{"2026-03-28 23:00:00", "2026-03-29 00:00:00", "2026-03-29 01:00:00",
                  "2026-03-29 02:00:00"}));
}

TEST(CronOccurrence, OfAFixedHourInAnOverlapIsTheFirst) {
  const auto new_york = TimeZone::find("America/New_York");
  // 2026-11-01: 02:00 becomes 01:00 at 06:00 UTC.
  EXPECT_EQ(runs("30 1 * * *", new_york, "2026-10-31 00:00:00", "2026-11-03 00:00:00"),
            (Runs{"2026-10-31 05:30:00", "2026-11-01 05:30:00", "2026-11-02 06:30:00"}));
  EXPECT_EQ(runs("0,30 1-2 * * *", new_york, "2026-11-01 00:00:00", "2026-11-02 00:00:00"),
            (Runs{"2026-11-01 05:00:00", "2026-11-01 05:30:00", "2026-11-01 07:00:00",
                  "2026-11-01 07:30:00"}));
}

TEST(CronOccurrence, FromWithinTheSecondPassOfAnOverlapLooksPastIt) {
  const auto new_york = TimeZone::find("America/New_York");
  const auto half_past_one = cron("30 1 * * *");
  EXPECT_EQ(next_occurrence(half_past_one, new_york, utc("2026-11-01 06:10:00")),
            utc("2026-11-02 06:30:00"));
  EXPECT_EQ(previous_occurrence(half_past_one, new_york, utc("2026-11-01 06:10:00")),
            utc("2026-11-01 05:30:00"));
}

TEST(CronOccurrence, OfEveryHourGoesByElapsedTime) {
  const auto berlin = TimeZone::find("Europe/Berlin");
  EXPECT_EQ(runs("0 * * * *", berlin, "2026-03-29 00:00:00", "2026-03-29 04:00:00"),
            (Runs{"2026-03-29 00:00:00", "2026-03-29 01:00:00", "2026-03-29 02:00:00",
                  "2026-03-29 03:00:00"}));
  // 2026-10-25: 03:00 becomes 02:00 at 01:00 UTC.
  EXPECT_EQ(runs("30 * * * *", berlin, "2026-10-24 23:00:00", "2026-10-25 03:00:00"),
            (Runs{"2026-10-24 23:30:00", "2026-10-25 00:30:00", "2026-10-25 01:30:00",
                  "2026-10-25 02:30:00"}));
  // 02:00 matches `*/2`. A gap skips it, and in an overlap it occurs twice.
  EXPECT_EQ(runs("0 */2 * * *", berlin, "2026-03-28 22:00:00", "2026-03-29 06:00:00"),
            (Runs{"2026-03-28 23:00:00", "2026-03-29 02:00:00", "2026-03-29 04:00:00"}));
  EXPECT_EQ(runs("0 */2 * * *", berlin, "2026-10-24 22:00:00", "2026-10-25 04:00:00"),
            (Runs{"2026-10-24 22:00:00", "2026-10-25 00:00:00", "2026-10-25 01:00:00",
                  "2026-10-25 03:00:00"}));
}

TEST(CronOccurrence, OfEverySecondMissesNoneAtAClockChange) {
  const auto berlin = TimeZone::find("Europe/Berlin");
  for (const auto* const day : {"2026-03-29", "2026-10-25"}) {
    const std::string date{day};
    EXPECT_EQ(
        runs("* * * * * *", berlin, date + " 00:59:58", date + " 01:00:02"),
        (Runs{date + " 00:59:58", date + " 00:59:59", date + " 01:00:00", date + " 01:00:01"}));
  }
}

TEST(CronOccurrence, KnowsOddZones) {
  // Half an hour: 2026-04-05 at 15:00 UTC, 02:00 becomes 01:30; 2026-10-03 at 15:30 UTC, 02:00
  // becomes 02:30.
  const auto lord_howe = TimeZone::find("Australia/Lord_Howe");
  EXPECT_EQ(runs("15,45 1 * * *", lord_howe, "2026-04-04 12:00:00", "2026-04-05 12:00:00"),
            (Runs{"2026-04-04 14:15:00", "2026-04-04 14:45:00"}));
  EXPECT_EQ(runs("15,45 2 * * *", lord_howe, "2026-10-03 12:00:00", "2026-10-04 12:00:00"),
            (Runs{"2026-10-03 15:30:00", "2026-10-03 15:45:00"}));
  // Midnight itself is skipped: 2018-11-04 at 03:00 UTC, 00:00 becomes 01:00.
  const auto sao_paulo = TimeZone::find("America/Sao_Paulo");
  EXPECT_EQ(runs("0 0 * * *", sao_paulo, "2018-11-03 00:00:00", "2018-11-06 00:00:00"),
            (Runs{"2018-11-03 03:00:00", "2018-11-04 03:00:00", "2018-11-05 02:00:00"}));
  // A whole day is skipped: after 2011-12-29 comes 2011-12-31, at 10:00 UTC.
  const auto apia = TimeZone::find("Pacific/Apia");
  EXPECT_EQ(runs("0 12 * * *", apia, "2011-12-29 00:00:00", "2012-01-01 00:00:00"),
            (Runs{"2011-12-29 22:00:00", "2011-12-30 10:00:00", "2011-12-30 22:00:00",
                  "2011-12-31 22:00:00"}));
}

TEST(CronOccurrence, IsStrictlyAfterAndStrictlyBefore) {
  const auto utc_zone = TimeZone::utc();
  const auto noon = cron("0 12 * * *");
  EXPECT_EQ(next_occurrence(noon, utc_zone, utc("2026-01-01 12:00:00")),
            utc("2026-01-02 12:00:00"));
  EXPECT_EQ(next_occurrence(noon, utc_zone, utc("2026-01-01 12:00:00") - 1us),
            utc("2026-01-01 12:00:00"));
  EXPECT_EQ(previous_occurrence(noon, utc_zone, utc("2026-01-01 12:00:00")),
            utc("2025-12-31 12:00:00"));
  EXPECT_EQ(previous_occurrence(noon, utc_zone, utc("2026-01-01 12:00:00") + 1us),
            utc("2026-01-01 12:00:00"));
}

TEST(CronOccurrence, EndsQuietlyAtTheEndsOfTime) {
  for (const auto& zone : {TimeZone::utc(), TimeZone::find("Pacific/Kiritimati"),
                           TimeZone::find("Pacific/Pago_Pago")}) {
    for (const auto* text : {"* * * * * *", "0 12 * * *", "0 0 29 2 MON"}) {
      SCOPED_TRACE(zone.name() + " " + text);
      EXPECT_EQ(next_occurrence(cron(text), zone, WallTime::max()), std::nullopt);
      EXPECT_EQ(next_occurrence(cron(text), zone, utc("9999-12-31 23:59:59")), std::nullopt);
      EXPECT_EQ(previous_occurrence(cron(text), zone, WallTime::min()), std::nullopt);
      EXPECT_EQ(previous_occurrence(cron(text), zone, utc("0001-01-01 00:00:00")), std::nullopt);
      EXPECT_LT(next_occurrence(cron(text), zone, WallTime::min()), utc("0005-01-01 00:00:00"));
      EXPECT_GT(previous_occurrence(cron(text), zone, WallTime::max()), utc("9995-01-01 00:00:00"));
    }
  }
}

TEST(CronOccurrence, MayBeFortyYearsAway) {
  const auto rare = cron("0 0 ? 2 MON#5");
  const auto berlin = TimeZone::find("Europe/Berlin");
  EXPECT_EQ(next_occurrence(rare, berlin, utc("2072-03-01 00:00:00")), utc("2112-02-28 23:00:00"));
  EXPECT_EQ(previous_occurrence(rare, berlin, utc("2112-02-28 00:00:00")),
            utc("2072-02-28 23:00:00"));
  const auto rare_every_hour = cron("0 * ? 2 MON#5");
  EXPECT_EQ(next_occurrence(rare_every_hour, berlin, utc("2072-03-01 00:00:00")),
            utc("2112-02-28 23:00:00"));
}

}  // namespace
