#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "core/cron_schedule.hpp"
#include "dovetail/cron.hpp"

namespace dovetail::core {
namespace {

constexpr std::array<std::string_view, 12> month_codes{"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                                       "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
constexpr std::array<std::string_view, 7> weekday_codes{"SUN", "MON", "TUE", "WED",
                                                        "THU", "FRI", "SAT"};

struct FieldRule {
  std::string_view name;
  int low;
  int high;                                   // the greatest number in an expression
  int top;                                    // the greatest value: weekday 7 is 0
  std::span<const std::string_view> names{};  // of the values from `low` on
  std::string_view allowed;                   // for people
};

constexpr FieldRule second_rule{"second", 0, 59, 59, {}, "0 to 59"};
constexpr FieldRule minute_rule{"minute", 0, 59, 59, {}, "0 to 59"};
constexpr FieldRule hour_rule{"hour", 0, 23, 23, {}, "0 to 23"};
constexpr FieldRule day_rule{"day", 1, 31, 31, {}, "1 to 31"};
constexpr FieldRule month_rule{"month", 1, 12, 12, month_codes, "1 to 12 or JAN to DEC"};
constexpr FieldRule weekday_rule{"weekday", 0, 7, 6, weekday_codes, "0 to 7 or SUN to SAT"};

// The functions of <cctype> depend on the locale.
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
constexpr bool is_shown(char c) {
  return c >= ' ' && c <= '~';
}
constexpr char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, upper, upper);
}

/// The copy has one character for each byte of `text`, so that positions stay valid.
std::string quoted(std::string_view text) {
  std::string shown{text.substr(0, CronExpression::longest)};
  std::ranges::replace_if(
      shown, [](char c) { return !is_shown(c); }, '?');
  return '"' + shown + '"';
}

[[noreturn]] void fail(std::string_view text, std::size_t index, const std::string& why) {
  throw CronError(index + 1, "cron expression " + quoted(text) + ", position " +
                                 std::to_string(index + 1) + ": " + why);
}

struct Slice {
  std::size_t begin;
  std::size_t end;
};

/// Reads one field. `at_` is the position in the whole expression, for error messages.
class FieldReader {
 public:
  FieldReader(std::string_view text, Slice slice, const FieldRule& rule, CronSchedule& schedule)
      : text_(text), at_(slice.begin), end_(slice.end), rule_(rule), schedule_(schedule) {}

  NumberSet read() {
    if (text_.substr(at_, end_ - at_) == "?" && (is_day() || is_weekday())) {
      return all_between(rule_.low, rule_.top);
    }
    do {
      read_element();
    } while (take(','));
    if (at_ < end_)
      fail_here(std::string{"unexpected '"} + text_[at_] + "' in the " + named() + " field");
    return values_;
  }

 private:
  [[nodiscard]] bool is_day() const { return &rule_ == &day_rule; }
  [[nodiscard]] bool is_weekday() const { return &rule_ == &weekday_rule; }
  [[nodiscard]] std::string named() const { return std::string{rule_.name}; }
  [[nodiscard]] char next() const { return at_ < end_ ? upper(text_[at_]) : '\0'; }

  [[noreturn]] void fail_here(const std::string& why) const { fail(text_, at_, why); }

  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }

  void read_element() {
    if (at_ == end_ || next() == ',')
      fail_here("the " + named() + " field has an empty list element");
    if (next() == '?') fail_here("'?' stands only alone, as the whole day or weekday field");
    if (take('*')) return add_range(rule_.low, rule_.top);
    if (is_day() && take('L')) return add_days_before_last();
    if (is_weekday() && take('L')) return add(rule_.top);
    const int first = read_value();
    if (is_day() && take('W')) {
      schedule_.working_days |= only(first);
    } else if (is_weekday() && take('L')) {
      schedule_.last_weekdays |= only(first % 7);
    } else if (is_weekday() && take('#')) {
      schedule_.nth_weekdays[static_cast<std::size_t>(first % 7)] |=
          only(read_number(1, 5, "the number after '#' must be 1 to 5"));
    } else if (take('-')) {
      add_range(first, read_value());
    } else if (next() == '/') {
      add_range(first, rule_.top);
    } else {
      add(first);
    }
  }

  /// Reads the part after `L`.
  void add_days_before_last() {
    const int before =
        take('-') ? read_number(1, 30, "the number of days before the last one must be 1 to 30")
                  : 0;
    (take('W') ? schedule_.working_days_before_last : schedule_.days_before_last) |= only(before);
  }

  void add(int value) { values_ |= only(is_weekday() ? value % 7 : value); }

  /// Reads a range from `first` to `last`, which wraps around if `last` is smaller. A step may
  /// follow.
  void add_range(int first, int last) {
    const int step = read_step();
    const int cycle = rule_.top - rule_.low + 1;
    const int length = last >= first ? last - first : last - first + cycle;
    for (int i = 0; i <= length; i += step) add(rule_.low + (first - rule_.low + i) % cycle);
  }

  int read_step() {
    if (!take('/')) return 1;
    return read_number(
        1, rule_.high,
        "the step of the " + named() + " field must be 1 to " + std::to_string(rule_.high));
  }

  int read_value() {
    const auto name = std::ranges::find_if(rule_.names, [this](std::string_view candidate) {
      return same_letters(text_.substr(at_, std::min(candidate.size(), end_ - at_)), candidate);
    });
    if (name != rule_.names.end()) {
      at_ += name->size();
      return rule_.low + static_cast<int>(name - rule_.names.begin());
    }
    return read_number(rule_.low, rule_.high,
                       "the " + named() + " must be " + std::string{rule_.allowed});
  }

  int read_number(int low, int high, const std::string& rule) {
    const auto begin = at_;
    int number = 0;
    for (; is_digit(next()); ++at_) number = std::min(number * 10 + (next() - '0'), 1'000);
    if (at_ > begin && number >= low && number <= high) return number;
    const auto got =
        at_ > begin ? text_.substr(begin, at_ - begin) : text_.substr(at_, at_ < end_ ? 1 : 0);
    fail(text_, begin,
         rule + (got.empty() ? ", and is missing" : ", got '" + std::string{got} + "'"));
  }

  std::string_view text_;
  std::size_t at_;
  std::size_t end_;
  const FieldRule& rule_;
  CronSchedule& schedule_;
  NumberSet values_ = 0;
};

struct Word {
  std::string_view word;
  std::string_view meaning;
};

constexpr std::array<Word, 9> words{{{"@yearly", "0 0 0 1 1 *"},
                                     {"@annually", "0 0 0 1 1 *"},
                                     {"@monthly", "0 0 0 1 * *"},
                                     {"@weekly", "0 0 0 * * 0"},
                                     {"@daily", "0 0 0 * * *"},
                                     {"@midnight", "0 0 0 * * *"},
                                     {"@hourly", "0 0 * * * *"},
                                     {"@minutely", "0 * * * * *"},
                                     {"@secondly", "* * * * * *"}}};

std::string_view meaning_of(std::string_view text, Slice slice) {
  const auto given = text.substr(slice.begin, slice.end - slice.begin);
  const auto known =
      std::ranges::find_if(words, [&](const Word& w) { return same_letters(w.word, given); });
  if (known != words.end()) return known->meaning;
  if (same_letters(given, "@reboot")) {
    fail(text, slice.begin,
         "@reboot is not a time: a schedule runs on several machines, whenever they start");
  }
  std::string names;
  for (const auto& each : words) names.append(names.empty() ? "" : ", ").append(each.word);
  fail(text, slice.begin, "unknown word; known are " + names);
}

void require_readable(std::string_view text) {
  if (text.size() > CronExpression::longest) {
    fail(text, CronExpression::longest,
         "longer than " + std::to_string(CronExpression::longest) + " characters");
  }
  const auto odd = std::ranges::find_if(text, [](char c) { return !is_shown(c) && c != '\t'; });
  if (odd != text.end()) {
    fail(text, static_cast<std::size_t>(odd - text.begin()),
         "a character that no cron expression has");
  }
}

std::vector<Slice> split(std::string_view text) {
  std::vector<Slice> slices;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    while (at < text.size() && !is_blank(text[at])) ++at;
    if (at > begin) slices.push_back({begin, at});
    while (at < text.size() && is_blank(text[at])) ++at;
  }
  return slices;
}

void require_count(std::string_view text, const std::vector<Slice>& slices) {
  const auto count = slices.size();
  if (count == 5 || count == 6) return;
  const auto where = count > 6 ? slices[6].begin : text.size();
  fail(text, where,
       "expected 5 fields (minute hour day month weekday) or 6 (second first), got " +
           std::to_string(count));
}

CronSchedule read_fields(std::string_view text, std::vector<Slice> slices) {
  CronSchedule schedule;
  const auto read = [&](Slice slice, const FieldRule& rule) {
    return FieldReader{text, slice, rule, schedule}.read();
  };
  schedule.seconds = only(0);
  if (slices.size() == 6) {
    schedule.seconds = read(slices.front(), second_rule);
    slices.erase(slices.begin());
  }
  const auto is_any = [&](Slice slice) {
    return text[slice.begin] == '*' || text[slice.begin] == '?';
  };
  schedule.minutes = read(slices[0], minute_rule);
  schedule.hours = read(slices[1], hour_rule);
  schedule.days = read(slices[2], day_rule);
  schedule.months = read(slices[3], month_rule);
  schedule.weekdays = read(slices[4], weekday_rule);
  schedule.fixed_hour = !is_any(slices[1]);
  schedule.any_day = is_any(slices[2]);
  schedule.any_weekday = is_any(slices[4]);
  if (!ever_occurs(schedule))
    fail(text, slices[2].begin, "no date matches day, month and weekday: it would never run");
  return schedule;
}

}  // namespace

CronSchedule parse_cron(std::string_view text) {
  require_readable(text);
  auto slices = split(text);
  if (slices.size() == 1 && text[slices.front().begin] == '@')
    return parse_cron(meaning_of(text, slices.front()));
  require_count(text, slices);
  return read_fields(text, std::move(slices));
}

}  // namespace dovetail::core
