#include "core/posix_zone.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace dovetail::core {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using std::chrono::year;

constexpr int longest_offset_hours = 24;
constexpr int longest_time_hours = 167;

/// Reads one part of the rule after the other. After a wrong part, every further part is wrong,
/// too.
class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] bool next_is(char c) const { return !rest_.empty() && rest_.front() == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) { good_ = take(c) && good_; }

  void name() {
    const bool quoted = take('<');
    const auto is_part = [&](char c) {
      return quoted ? c != '>' : (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    const auto size = static_cast<std::size_t>(
        std::distance(rest_.begin(), std::ranges::find_if_not(rest_, is_part)));
    good_ = good_ && size >= 3;
    rest_.remove_prefix(size);
    if (quoted) expect('>');
  }

  int number(int most) {
    int value = 0;
    std::size_t digits = 0;
    for (; digits < 3 && digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9';
         ++digits) {
      value = value * 10 + (rest_[digits] - '0');
    }
    good_ = good_ && digits > 0 && value <= most;
    rest_.remove_prefix(digits);
    return value;
  }

  /// [+-]hh[:mm[:ss]]
  seconds time(int most_hours) {
    const bool negative = take('-');
    if (!negative) take('+');
    seconds value = std::chrono::hours{number(most_hours)};
    if (take(':')) value += std::chrono::minutes{number(59)};
    if (take(':')) value += seconds{number(59)};
    return negative ? -value : value;
  }

  PosixDay day() {
    PosixDay day{.time = 2h};
    if (take('M')) {
      day.kind = PosixDay::Kind::weekday;
      day.month = static_cast<unsigned>(number(12));
      expect('.');
      day.week = static_cast<unsigned>(number(5));
      expect('.');
      day.day = number(6);
      good_ = good_ && day.month >= 1 && day.week >= 1;
    } else {
      day.kind = take('J') ? PosixDay::Kind::julian : PosixDay::Kind::from_zero;
      day.day = number(365);
      good_ = good_ && (day.kind == PosixDay::Kind::from_zero || day.day >= 1);
    }
    if (take('/')) day.time = time(longest_time_hours);
    return day;
  }

 private:
  std::string_view rest_;
  bool good_ = true;
};

sys_days date_of(const PosixDay& day, year in) {
  if (day.kind == PosixDay::Kind::weekday) {
    const auto month = in / std::chrono::month{day.month};
    const std::chrono::weekday weekday{static_cast<unsigned>(day.day)};
    return day.week == 5 ? sys_days{month / weekday[std::chrono::last]}
                         : sys_days{month / weekday[day.week]};
  }
  const sys_days first{in / std::chrono::January / 1};
  if (day.kind == PosixDay::Kind::from_zero) return first + days{day.day};
  const bool after_leap_day = in.is_leap() && day.day >= 60;
  return first + days{day.day - 1 + (after_leap_day ? 1 : 0)};
}

}  // namespace

std::optional<PosixZone> PosixZone::parse(std::string_view text) {
  RuleReader reader(text);
  PosixZone zone;
  reader.name();
  zone.standard_ = -reader.time(longest_offset_hours);
  if (!reader.good() || reader.at_end()) return std::nullopt;
  reader.name();
  zone.summer_ = reader.next_is(',') ? zone.standard_ + 1h : -reader.time(longest_offset_hours);
  reader.expect(',');
  zone.start_ = reader.day();
  reader.expect(',');
  zone.end_ = reader.day();
  if (!reader.good() || !reader.at_end()) return std::nullopt;
  return zone;
}

PosixZone::Period PosixZone::period_at(sys_seconds time) const {
  struct Change {
    sys_seconds at;
    bool to_summer;
  };
  const auto now = std::chrono::year_month_day{std::chrono::floor<days>(time)}.year();
  std::array<Change, 6> changes{};
  auto* next = changes.begin();
  for (const auto in : {now - std::chrono::years{1}, now, now + std::chrono::years{1}}) {
    *next++ = {date_of(end_, in) + end_.time - summer_, false};
    *next++ = {date_of(start_, in) + start_.time - standard_, true};
  }
  // If both changes happen at one instant (summer time all year), the change to summer time counts.
  std::ranges::sort(changes, [](const Change& a, const Change& b) {
    return a.at != b.at ? a.at < b.at : a.to_summer < b.to_summer;
  });
  const auto* after = std::ranges::upper_bound(changes, time, {}, &Change::at);
  const auto* last = std::prev(after);
  return {last->at, after->at, last->to_summer ? summer_ : standard_};
}

std::optional<std::string> zone_file_rule(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>{in}, {}};
  // "TZif", then the version: 0 for the first, which has no rule.
  if (!bytes.starts_with("TZif") || bytes.size() < 44 || bytes[4] < '2' || bytes.back() != '\n') {
    return std::nullopt;
  }
  const auto before = bytes.rfind('\n', bytes.size() - 2);
  if (before == std::string::npos) return std::nullopt;
  return bytes.substr(before + 1, bytes.size() - before - 2);
}

}  // namespace dovetail::core
