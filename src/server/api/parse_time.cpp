#include <charconv>
#include <stdexcept>

#include "server/api/input.hpp"

namespace dovetail::server::api {
namespace {

/// Reads a time of RFC 3339, part by part. A part that does not fit makes it fail.
class TimeText {
 public:
  explicit TimeText(std::string_view text) : rest_(text) {}

  int digits(std::size_t count, int lowest, int highest) {
    int number = 0;
    const auto part = rest_.substr(0, count);
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (part.size() != count || part.front() == '-' || error != std::errc{} ||
        end != part.data() + count || number < lowest || number > highest) {
      failed_ = true;
      return lowest;
    }
    rest_.remove_prefix(count);
    return number;
  }
  bool has(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void require(char wanted) { failed_ |= !has(wanted); }
  /// Up to six digits count; more are read and dropped.
  std::chrono::microseconds fraction() {
    int micros = 0;
    int unit = 100'000;
    failed_ |= rest_.empty() || !is_digit(rest_.front());
    for (; !rest_.empty() && is_digit(rest_.front()); rest_.remove_prefix(1), unit /= 10)
      micros += (rest_.front() - '0') * unit;
    return std::chrono::microseconds{micros};
  }
  std::chrono::minutes offset() {
    if (has('Z')) return {};
    const int sign = has('-') ? -1 : 1;
    if (sign == 1) require('+');
    const int hours = digits(2, 0, 23);
    require(':');
    return std::chrono::minutes{sign * (hours * 60 + digits(2, 0, 59))};
  }
  [[nodiscard]] bool is_complete() const { return !failed_ && rest_.empty(); }

 private:
  static bool is_digit(char each) { return each >= '0' && each <= '9'; }

  std::string_view rest_;
  bool failed_ = false;
};

std::optional<WallTime> read_time(std::string_view text) {
  TimeText in{text};
  const std::chrono::year year{in.digits(4, 1, 9999)};
  in.require('-');
  const std::chrono::month month{static_cast<unsigned>(in.digits(2, 1, 12))};
  in.require('-');
  const std::chrono::day day{static_cast<unsigned>(in.digits(2, 1, 31))};
  in.require('T');
  const std::chrono::hours hour{in.digits(2, 0, 23)};
  in.require(':');
  const std::chrono::minutes minute{in.digits(2, 0, 59)};
  in.require(':');
  const std::chrono::seconds second{in.digits(2, 0, 59)};
  const auto fraction = in.has('.') ? in.fraction() : std::chrono::microseconds{0};
  const auto offset = in.offset();
  const std::chrono::year_month_day date{year, month, day};
  if (!in.is_complete() || !date.ok()) return std::nullopt;
  return WallTime{std::chrono::sys_days{date}} + hour + minute + second + fraction - offset;
}

}  // namespace

WallTime parse_time(const std::string& name, const std::string& text) {
  if (const auto time = read_time(text)) return *time;
  throw std::invalid_argument(name +
                              " must be a time such as 2026-01-31T09:30:00Z or "
                              "2026-01-31T10:30:00+01:00, got \"" +
                              text + "\"");
}

}  // namespace dovetail::server::api
