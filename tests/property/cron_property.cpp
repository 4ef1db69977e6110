#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dovetail/cron.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::local_days;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::year;
using std::chrono::year_month_day;
namespace gen = rc::gen;

// A reference implementation that tests each second of each day.

struct Date {
  int day;      // of the month
  int last;     // of the month
  int month;    // from 1
  int weekday;  // Sunday is 0
};

Date date_of(local_days day) {
  const year_month_day date{day};
  const auto last = (date.year() / date.month() / std::chrono::last).day();
  return {static_cast<int>(static_cast<unsigned>(date.day())),
          static_cast<int>(static_cast<unsigned>(last)),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(std::chrono::weekday{day}.c_encoding())};
}

bool is_working_day(const Date& date, int day) {
  const int weekday = ((date.weekday + day - date.day) % 7 + 7) % 7;
  return weekday != 0 && weekday != 6;
}

/// Whether `date` is the working day of its month that is nearest to `target`. Tests all days.
bool is_nearest_working_day(const Date& date, int target) {
  if (target < 1 || target > date.last || !is_working_day(date, date.day)) return false;
  for (int other = 1; other <= date.last; ++other) {
    if (is_working_day(date, other) && std::abs(other - target) < std::abs(date.day - target))
      return false;
  }
  return true;
}

using DateTest = std::function<bool(const Date&)>;

/// The text of one field, and its meaning.
struct Field {
  std::string text;
  std::set<int> values;
  std::vector<DateTest> tests;
  bool any = false;
};

struct Element {
  std::string text;
  std::set<int> values;
  DateTest test;
};

Field joined(const std::vector<Element>& elements) {
  Field field;
  for (const auto& element : elements) {
    if (!field.text.empty()) field.text += ',';
    field.text += element.text;
    field.values.insert(element.values.begin(), element.values.end());
    if (element.test) field.tests.push_back(element.test);
  }
  field.any = field.text.front() == '*' || field.text == "?";
  return field;
}

struct Model {
  Field second, minute, hour, day, month, weekday;

  [[nodiscard]] std::string text() const {
    return second.text + " " + minute.text + " " + hour.text + " " + day.text + " " + month.text +
           " " + weekday.text;
  }

  [[nodiscard]] bool matches(const Date& date) const {
    if (!month.values.contains(date.month)) return false;
    const auto meets = [&](const Field& field, int value) {
      return field.values.contains(value) ||
             std::ranges::any_of(field.tests, [&](const DateTest& test) { return test(date); });
    };
    const bool by_day = meets(day, date.day);
    const bool by_weekday = meets(weekday, date.weekday);
    return !day.any && !weekday.any ? by_day || by_weekday : by_day && by_weekday;
  }

  /// Indexed by the second of the day.
  [[nodiscard]] std::vector<bool> clock() const {
    std::vector<bool> found(86'400);
    for (const int h : hour.values) {
      for (const int m : minute.values) {
        for (const int s : second.values)
          found[static_cast<std::size_t>(h * 3'600 + m * 60 + s)] = true;
      }
    }
    return found;
  }
};

// Random expressions

std::string in_some_case(std::string text) {
  for (auto& c : text) {
    if (c >= 'A' && c <= 'Z' && *gen::arbitrary<bool>()) c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

using Names = std::vector<std::string>;
const Names no_names{};
const Names month_names{"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                        "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
const Names weekday_names{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

struct Range {
  int low;
  int high;
  const Names& names;
};

std::string value_text(const Range& range, int value) {
  const auto index = static_cast<std::size_t>(value - range.low);
  if (index < range.names.size() && *gen::arbitrary<bool>())
    return in_some_case(range.names[index]);
  return (*gen::weightedElement<bool>({{9, false}, {1, true}}) ? "0" : "") + std::to_string(value);
}

/// Every `step`-th value from `first` to `last`. After the largest value follows the smallest.
std::set<int> walked(const Range& range, int first, int last, int step) {
  std::set<int> values;
  int count = 0;
  for (int value = first;; value = value == range.high ? range.low : value + 1) {
    if (count++ % step == 0) values.insert(value);
    if (value == last) return values;
  }
}

Element any_plain_element(const Range& range) {
  const auto value = gen::inRange(range.low, range.high + 1);
  const int step = *gen::inRange(1, range.high + 1);
  const auto step_text = "/" + std::to_string(step);
  const int first = *value;
  const int last = *value;
  const auto range_text = value_text(range, first) + "-" + value_text(range, last);
  switch (*gen::inRange(0, 7)) {
    case 0:
      return {"*", walked(range, range.low, range.high, 1), {}};
    case 1:
      return {"*" + step_text, walked(range, range.low, range.high, step), {}};
    case 2:
      return {range_text, walked(range, first, last, 1), {}};
    case 3:
      return {range_text + step_text, walked(range, first, last, step), {}};
    case 4:
      return {value_text(range, first) + step_text, walked(range, first, range.high, step), {}};
    default:
      return {value_text(range, first), {first}, {}};
  }
}

Element any_day_element(const Range& range) {
  const int number = *gen::inRange(1, 31);
  const auto text = std::to_string(number);
  switch (*gen::inRange(0, 9)) {
    case 0:
      return {in_some_case("L"), {}, [](const Date& d) { return d.day == d.last; }};
    case 1:
      return {
          in_some_case("L-") + text, {}, [=](const Date& d) { return d.day == d.last - number; }};
    case 2:
      return {text + in_some_case("W"), {}, [=](const Date& d) {
                return is_nearest_working_day(d, number);
              }};
    case 3:
      return {
          in_some_case("LW"), {}, [](const Date& d) { return is_nearest_working_day(d, d.last); }};
    case 4:
      return {"L-" + text + "W", {}, [=](const Date& d) {
                return is_nearest_working_day(d, d.last - number);
              }};
    default:
      return any_plain_element(range);
  }
}

Element any_weekday_element(const Range& range) {
  const int weekday = *gen::inRange(0, 7);
  const int nth = *gen::inRange(1, 6);
  const auto text = weekday == 0 && *gen::arbitrary<bool>() ? "7" : value_text(range, weekday);
  switch (*gen::inRange(0, 8)) {
    case 0:
      return {in_some_case("L"), {6}, {}};
    case 1:
      return {text + "L", {}, [=](const Date& d) {
                return d.weekday == weekday && d.day > d.last - 7;
              }};
    case 2:
      return {text + "#" + std::to_string(nth), {}, [=](const Date& d) {
                return d.weekday == weekday && d.day > 7 * nth - 7 && d.day <= 7 * nth;
              }};
    case 3:
      return {"7", {0}, {}};
    default:
      return any_plain_element(range);
  }
}

Field any_field(const Range& range, Element (*element)(const Range&)) {
  const auto length = *gen::weightedElement<int>({{6, 1}, {2, 2}, {1, 3}, {1, 6}});
  std::vector<Element> elements;
  for (int i = 0; i < length; ++i) elements.push_back(element(range));
  return joined(elements);
}

Field star(const Range& range, const std::string& text) {
  return joined({{text, walked(range, range.low, range.high, 1), {}}});
}

/// Most expressions match every day, so that occurrences are close together.
Model any_model() {
  const Range sixty{0, 59, no_names};
  const Range hours{0, 23, no_names};
  const Range month_days{1, 31, no_names};
  const Range months{1, 12, month_names};
  const Range weekdays{0, 6, weekday_names};
  const auto open = [] { return *gen::arbitrary<bool>(); };
  return {
      .second = any_field(sixty, any_plain_element),
      .minute = any_field(sixty, any_plain_element),
      .hour = any_field(hours, any_plain_element),
      .day = open() ? star(month_days, open() ? "*" : "?") : any_field(month_days, any_day_element),
      .month = open() ? star(months, "*") : any_field(months, any_plain_element),
      .weekday =
          open() ? star(weekdays, open() ? "*" : "?") : any_field(weekdays, any_weekday_element)};
}

/// Matches every day, a few times a minute.
Model any_clock_model() {
  auto model = any_model();
  model.second = joined({{"0,30", {0, 30}, {}}});
  model.day = star({1, 31, no_names}, "*");
  model.month = star({1, 12, no_names}, "*");
  model.weekday = star({0, 6, no_names}, "*");
  return model;
}

std::optional<CronExpression> parsed(const std::string& text) {
  try {
    return CronExpression::parse(text);
  } catch (const CronError&) {
    return std::nullopt;
  }
}

LocalTime any_local_time() {
  return local_days{year{1995} / 1 / 1} +
         seconds{*gen::inRange<std::int64_t>(0, 60LL * 366 * 86'400)};
}

// Any text

RC_GTEST_PROP(CronProperty, ParseOfAnyBytesThrowsNothingButACronError, (const std::string& text)) {
  const auto expression = parsed(text);
  // RC_ASSERT evaluates both sides of `||`.
  if (expression) RC_ASSERT(!expression->describe().empty());
}

RC_GTEST_PROP(CronProperty, TheErrorOfAnAlmostValidExpressionPointsIntoItsText, ()) {
  const auto letters = gen::elementOf(std::string{"0123456789*?/-,#LW @MONFRIJANaz\t\x01\x80"});
  std::string text =
      *gen::arbitrary<bool>() ? (*gen::exec(any_model)).text() : std::string{"0 0 1 1 * *"};
  for (int edits = *gen::inRange(1, 5); edits > 0; --edits) {
    const auto at = *gen::inRange<std::size_t>(0, text.size() + 1);
    if (*gen::arbitrary<bool>()) {
      text.insert(at, 1, *letters);
    } else if (at < text.size()) {
      text.erase(at, 1);
    }
  }
  try {
    RC_ASSERT(!CronExpression::parse(text).describe().empty());
  } catch (const CronError& e) {
    RC_ASSERT(e.position() >= 1U);
    RC_ASSERT(e.position() <= text.size() + 1);
    RC_ASSERT(std::string{e.what()}.find("position " + std::to_string(e.position())) !=
              std::string::npos);
  }
}

// Comparison with the reference implementation

constexpr days window{400};

std::optional<LocalTime> oracle_next(const Model& model, LocalTime after) {
  const auto clock = model.clock();
  const auto first_day = std::chrono::floor<days>(after);
  for (auto day = first_day; day <= first_day + window; day += days{1}) {
    if (!model.matches(date_of(day))) continue;
    for (std::size_t s = 0; s < clock.size(); ++s) {
      if (clock[s] && day + seconds{s} > after) return day + seconds{s};
    }
  }
  return std::nullopt;
}

bool occurs_ever(const Model& model) {
  for (auto day = local_days{year{2000} / 1 / 1}; day < local_days{year{2400} / 1 / 1};
       day += days{1}) {
    if (model.matches(date_of(day))) return true;
  }
  return false;
}

RC_GTEST_PROP(CronProperty, NextEqualsTheReference, ()) {
  const auto model = *gen::exec(any_model);
  const auto expression = parsed(model.text());
  RC_PRE(expression.has_value());
  for (int i = 0; i < 4; ++i) {
    const auto after = any_local_time();
    const auto expected = oracle_next(model, after);
    const auto actual = expression->next_after(after);
    RC_ASSERT(actual.has_value());
    if (expected) {
      RC_ASSERT(*actual == *expected);
    } else {
      RC_ASSERT(*actual > after + window);
      RC_ASSERT(model.matches(date_of(std::chrono::floor<days>(*actual))));
    }
  }
}

RC_GTEST_PROP(CronProperty, OnlyExpressionsThatNeverOccurAreRefused, ()) {
  const auto model = *gen::exec(any_model);
  if (model.text().size() <= CronExpression::longest && !parsed(model.text()))
    RC_ASSERT(!occurs_ever(model));
}

RC_GTEST_PROP(CronProperty, PreviousIsTheInverseOfNext, ()) {
  const auto expression = parsed((*gen::exec(any_model)).text());
  RC_PRE(expression.has_value());
  const auto after = any_local_time();
  const auto next = expression->next_after(after);
  RC_ASSERT(next > after);
  RC_ASSERT(expression->previous_before(*next + 1s) == next);
  const auto previous = expression->previous_before(*next);
  RC_ASSERT(previous <= after);
  RC_ASSERT(expression->next_after(*previous) == next);
}

RC_GTEST_PROP(CronProperty, FiveFieldsAreSixWithSecondZero, ()) {
  const auto text = (*gen::exec(any_model)).text();
  const auto five = text.substr(text.find(' ') + 1);
  RC_ASSERT(parsed(five) == parsed("0 " + five));
}

bool same_occurrences(const CronExpression& a, const CronExpression& b) {
  auto at = LocalTime{local_days{year{2023} / 12 / 31}};
  for (int i = 0; i < 500; ++i) {
    const auto next = a.next_after(at);
    if (next != b.next_after(at)) return false;
    at = *next;
  }
  return true;
}

/// Generates many expressions per case, so that some are equal.
RC_GTEST_PROP(CronProperty, DifferentSchedulesHaveDifferentDescriptions, ()) {
  std::map<std::string, CronExpression> described;
  for (int i = 0; i < 30; ++i) {
    const auto expression = parsed((*gen::exec(any_model)).text());
    if (!expression) continue;
    const auto [known, fresh] = described.emplace(expression->describe(), *expression);
    if (!fresh) RC_ASSERT(same_occurrences(known->second, *expression));
  }
}

// Every clock change of every zone

/// The zones of the system's time zone files, without aliases.
std::vector<std::string> zone_names() {
  std::ifstream file{"/usr/share/zoneinfo/tzdata.zi"};
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Z ")) continue;
    const auto name = line.substr(2, line.find(' ', 2) - 2);
    if (name != "Factory") names.push_back(name);
  }
  return names;
}

constexpr WallTime first_instant = sys_days{year{2015} / 1 / 1};
constexpr WallTime last_instant = sys_days{year{2035} / 1 / 1};

struct Change {
  WallTime at;
  seconds before;
  seconds after;

  [[nodiscard]] seconds local_clock(WallTime time) const {
    return std::chrono::floor<seconds>(time.time_since_epoch()) + (time < at ? before : after);
  }
  /// The first time at which the local clock shows `clock` or later.
  [[nodiscard]] WallTime first_shown(seconds clock) const {
    const WallTime early{clock - before};
    return early < at ? early : std::max(at, WallTime{clock - after});
  }
};

std::vector<Change> changes_of(const TimeZone& zone) {
  std::vector<Change> changes;
  for (auto period = zone.period_at(first_instant); period.end < last_instant;) {
    const auto next = zone.period_at(period.end);
    // A change of the zone's name or of its daylight saving flag does not change the clock.
    if (next.offset != period.offset) changes.push_back({next.begin, period.offset, next.offset});
    period = next;
  }
  return changes;
}

template <class Visit>
int for_each_change(Visit visit) {
  int count = 0;
  for (const auto& name : zone_names()) {
    const auto zone = TimeZone::find(name);
    for (const auto& change : changes_of(zone)) {
      visit(zone, change);
      ++count;
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << name << " at " << to_string(change.at);
        return count;
      }
    }
  }
  return count;
}

using Times = std::vector<WallTime>;

Times runs_between(const CronExpression& job, const TimeZone& zone, WallTime from, WallTime to) {
  Times found;
  for (auto next = next_occurrence(job, zone, from - 1us); next && *next < to;
       next = next_occurrence(job, zone, *next)) {
    found.push_back(*next);
  }
  return found;
}

Times runs_backwards(const CronExpression& job, const TimeZone& zone, WallTime from, WallTime to) {
  Times found;
  for (auto last = previous_occurrence(job, zone, to); last && *last >= from;
       last = previous_occurrence(job, zone, *last)) {
    found.push_back(*last);
  }
  std::ranges::reverse(found);
  return found;
}

/// `clocks` are seconds of the day. One run per day and clock time. Times inside one gap share a
/// run.
Times expected_daily(const Change& change, const std::vector<seconds>& clocks, WallTime from,
                     WallTime to) {
  std::set<WallTime> expected;
  const auto today = std::chrono::floor<days>(change.at.time_since_epoch());
  for (auto day = today - days{5}; day <= today + days{5}; day += days{1}) {
    for (const auto clock : clocks) {
      const auto run = change.first_shown(day + clock);
      if (run >= from && run < to) expected.insert(run);
    }
  }
  return {expected.begin(), expected.end()};
}

std::string daily_at(seconds clock) {
  const std::chrono::hh_mm_ss time{clock};
  return std::to_string(time.seconds().count()) + " " + std::to_string(time.minutes().count()) +
         " " + std::to_string(time.hours().count()) + " * * *";
}

seconds time_of_day(seconds clock) {
  return clock - std::chrono::floor<days>(clock);
}

void expect_one_run_a_day(const TimeZone& zone, const Change& change, seconds clock) {
  const auto job = CronExpression::parse(daily_at(clock));
  const auto from = change.at - 60h;
  const auto to = change.at + 60h;
  const auto runs = runs_between(job, zone, from, to);
  ASSERT_EQ(runs, expected_daily(change, {clock}, from, to)) << job.text();
  ASSERT_EQ(runs, runs_backwards(job, zone, from, to)) << job.text();
  // Equivalent: each day has exactly one run.
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const auto shift = std::chrono::abs(change.after - change.before);
    ASSERT_GE(runs[i] - runs[i - 1], days{1} - shift) << job.text();
    ASSERT_LE(runs[i] - runs[i - 1], days{1} + shift) << job.text();
  }
}

TEST(EveryClockChange, ADailyJobRunsOncePerDay) {
  const auto count = for_each_change([](const TimeZone& zone, const Change& change) {
    const auto low = change.at.time_since_epoch() + std::min(change.before, change.after);
    const auto high = change.at.time_since_epoch() + std::max(change.before, change.after);
    for (const auto clock :
         {low - 1s, low, (low + high) / 2, high - 1s, WallTime::duration{high}}) {
      expect_one_run_a_day(zone, change, time_of_day(std::chrono::floor<seconds>(clock)));
    }
    expect_one_run_a_day(zone, change, 2h + 30min);
  });
  EXPECT_GT(count, 3'000);
}

TEST(EveryClockChange, TimesInsideOneGapShareARun) {
  std::vector<seconds> clocks;
  for (seconds clock = 0s; clock < days{1}; clock += 15min) clocks.push_back(clock);
  const auto job = CronExpression::parse("*/15 0-23 * * *");
  for_each_change([&](const TimeZone& zone, const Change& change) {
    const auto from = change.at - 3h;
    const auto to = change.at + 5h;
    ASSERT_EQ(runs_between(job, zone, from, to), expected_daily(change, clocks, from, to));
    ASSERT_EQ(runs_backwards(job, zone, from, to), expected_daily(change, clocks, from, to));
  });
}

TEST(EveryClockChange, AJobOfEveryQuarterOfAnHourRunsAsUsual) {
  const auto job = CronExpression::parse("*/15 * * * *");
  for_each_change([&](const TimeZone& zone, const Change& change) {
    if (change.before % 15min != 0s || change.after % 15min != 0s) return;
    Times expected;
    for (auto time = change.at - 3h; time < change.at + 3h; time += 1min) {
      if (time.time_since_epoch() % 15min == 0s) expected.push_back(time);
    }
    ASSERT_EQ(runs_between(job, zone, change.at - 3h, change.at + 3h), expected);
    ASSERT_EQ(runs_backwards(job, zone, change.at - 3h, change.at + 3h), expected);
  });
}

TEST(EveryClockChange, AnHourlyJobRunsWheneverTheClockShowsAFullHour) {
  const auto hourly = CronExpression::parse("0 * * * *");
  const auto two_hourly = CronExpression::parse("0 */2 * * *");
  for_each_change([&](const TimeZone& zone, const Change& change) {
    const auto from = change.at - 4h;
    const auto to = change.at + 4h;
    Times full;
    Times even;
    for (auto time = from; time < to; time += 1min) {
      const auto clock = change.local_clock(time);
      if (clock % 1h == 0s) full.push_back(time);
      if (clock % 2h == 0s) even.push_back(time);
    }
    ASSERT_EQ(runs_between(hourly, zone, from, to), full);
    ASSERT_EQ(runs_between(two_hourly, zone, from, to), even);
    ASSERT_EQ(runs_backwards(two_hourly, zone, from, to), even);
  });
}

/// The C library reads the same files with its own code.
class CLibraryZone {
 public:
  explicit CLibraryZone(const std::string& name) {
    if (const char* before = std::getenv("TZ")) before_ = before;
    set(name);
  }
  ~CLibraryZone() { set(before_); }
  CLibraryZone(const CLibraryZone&) = delete;
  CLibraryZone& operator=(const CLibraryZone&) = delete;

  [[nodiscard]] static seconds offset_at(WallTime time) {
    const std::time_t when = std::chrono::floor<seconds>(time).time_since_epoch().count();
    std::tm fields{};
    ::localtime_r(&when, &fields);
    return seconds{fields.tm_gmtoff};
  }

 private:
  static void set(const std::optional<std::string>& name) {
    if (name) {
      ::setenv("TZ", name->c_str(), 1);
    } else {
      ::unsetenv("TZ");
    }
    ::tzset();
  }
  std::optional<std::string> before_;
};

TEST(EveryClockChange, EqualsThatOfTheCLibrary) {
  for (const auto& name : zone_names()) {
    const auto zone = TimeZone::find(name);
    const CLibraryZone other{name};
    for (const auto& change : changes_of(zone)) {
      ASSERT_EQ(other.offset_at(change.at - 1s), change.before)
          << name << " " << to_string(change.at);
      ASSERT_EQ(other.offset_at(change.at), change.after) << name << " " << to_string(change.at);
    }
    for (auto time = first_instant; time < last_instant; time += days{11}) {
      ASSERT_EQ(other.offset_at(time), zone.period_at(time).offset)
          << name << " " << to_string(time);
    }
  }
}

// Random jobs in random zones

/// A time shortly before a clock change, if the zone has any.
WallTime any_instant(const TimeZone& zone) {
  const auto changes = changes_of(zone);
  const auto anywhere = WallTime{any_local_time().time_since_epoch()};
  return changes.empty() ? anywhere
                         : (*gen::elementOf(changes)).at - seconds{*gen::inRange(-7'200, 7'200)};
}

RC_GTEST_PROP(CronZoneProperty, NextAndPreviousFindTheSameRuns, ()) {
  static const auto names = zone_names();
  const auto zone = TimeZone::find(*gen::elementOf(names));
  const auto expression = parsed((*gen::exec(any_model)).text());
  RC_PRE(expression.has_value());
  auto at = any_instant(zone);
  for (int i = 0; i < 50; ++i) {
    const auto next = next_occurrence(*expression, zone, at);
    RC_ASSERT(next > at);
    const auto previous = previous_occurrence(*expression, zone, *next);
    RC_ASSERT(previous <= at);
    RC_ASSERT(next_occurrence(*expression, zone, *previous) == next);
    RC_ASSERT(previous_occurrence(*expression, zone, *next + 1us) == next);
    at = *next;
  }
}

/// The time need not be a run itself. It may be in the second pass of an overlap.
RC_GTEST_PROP(CronZoneProperty, NoRunLiesBetweenPreviousAndNext, ()) {
  static const auto names = zone_names();
  const auto zone = TimeZone::find(*gen::elementOf(names));
  const auto expression = CronExpression::parse((*gen::exec(any_clock_model)).text());
  for (int i = 0; i < 20; ++i) {
    const auto at = any_instant(zone);
    const auto previous = previous_occurrence(expression, zone, at);
    const auto next = next_occurrence(expression, zone, at - 1us);
    RC_ASSERT(previous < at);
    RC_ASSERT(next >= at);
    RC_ASSERT(next_occurrence(expression, zone, *previous) == next);
    RC_ASSERT(previous_occurrence(expression, zone, *next) == previous);
  }
}

/// Compares a job that matches every day with the reference implementation, near one clock change.
RC_GTEST_PROP(CronZoneProperty, RunsEqualTheReference, ()) {
  static const auto names = zone_names();
  const auto zone = TimeZone::find(*gen::elementOf(names));
  const auto changes = changes_of(zone);
  RC_PRE(!changes.empty());
  const auto change = *gen::elementOf(changes);
  const auto model = *gen::exec(any_clock_model);
  const auto expression = CronExpression::parse(model.text());
  const auto clock = model.clock();

  Times expected;
  auto greatest = change.local_clock(change.at - 3h - 1s);
  for (auto time = change.at - 3h; time < change.at + 3h; time += 1s) {
    const auto now = change.local_clock(time);
    const auto matches = [&](seconds t) {
      return clock[static_cast<std::size_t>(time_of_day(t).count())];
    };
    bool runs = !expression.is_fixed_hour() && matches(now);
    // The local times reached by this step: one second, more after a gap, none in the second pass
    // of an overlap.
    for (; expression.is_fixed_hour() && greatest < now; greatest += 1s)
      runs |= matches(greatest + 1s);
    if (runs) expected.push_back(time);
  }
  RC_ASSERT(runs_between(expression, zone, change.at - 3h, change.at + 3h) == expected);
  RC_ASSERT(runs_backwards(expression, zone, change.at - 3h, change.at + 3h) == expected);
}

}  // namespace
