#include "config/value.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>
#include <stdexcept>

namespace dovetail::config {
namespace {

using std::chrono::milliseconds;

constexpr auto largest = std::numeric_limits<std::int64_t>::max();
constexpr const char* a_duration = R"(a duration such as "30s", "500ms" or "1h30min")";
constexpr const char* a_size = R"(a size such as "64MiB", or a number of bytes)";

struct Unit {
  std::string_view name;
  std::int64_t factor;
};
/// From the greatest to the smallest. "m" stands for "min".
constexpr std::array<Unit, 5> duration_units{
    {{"d", 86'400'000}, {"h", 3'600'000}, {"min", 60'000}, {"s", 1'000}, {"ms", 1}}};
constexpr std::array<Unit, 5> size_units{{{"TiB", std::int64_t{1} << 40},
                                          {"GiB", std::int64_t{1} << 30},
                                          {"MiB", std::int64_t{1} << 20},
                                          {"KiB", std::int64_t{1} << 10},
                                          {"B", 1}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Removes the digits at the front of `text`.
std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const auto digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

std::string_view take_letters(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && !is_digit(text[count]) && text[count] != '.') ++count;
  const auto letters = text.substr(0, count);
  text.remove_prefix(count);
  return letters;
}

std::optional<std::int64_t> whole(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  if (error != std::errc{} || end != digits.end()) return std::nullopt;
  return number;
}

/// `whole.fraction * factor`, if that is a whole number.
std::optional<std::int64_t> scaled(std::string_view digits, std::string_view fraction,
                                   std::int64_t factor) {
  const auto number = whole(digits);
  if (!number || *number >= largest / factor) return std::nullopt;
  auto result = *number * factor;
  for (const char digit : fraction) {
    if (digit != '0' && (factor == 0 || factor % 10 != 0)) return std::nullopt;
    factor /= 10;
    result += (digit - '0') * factor;
  }
  return result;
}

/// The index of the unit.
std::optional<std::size_t> unit_named(std::string_view name) {
  if (name == "m") name = "min";
  for (std::size_t i = 0; i < duration_units.size(); ++i) {
    if (duration_units[i].name == name) return i;
  }
  return std::nullopt;
}

/// The next part of a duration, such as `30min`. Its unit must be smaller than the one before.
std::optional<std::int64_t> take_part(std::string_view& text, std::optional<std::size_t>& before) {
  const auto digits = take_digits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
    if (fraction.empty()) return std::nullopt;
  }
  const auto unit = unit_named(take_letters(text));
  if (digits.empty() || !unit || (before && *unit <= *before)) return std::nullopt;
  before = unit;
  return scaled(digits, fraction, duration_units[*unit].factor);
}

/// A byte that cannot stand in a TOML string as it is.
bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::text:
      return "text";
    case Kind::path:
      return "path";
    case Kind::boolean:
      return "boolean";
    case Kind::number:
      return "number";
    case Kind::limit:
      return "limit";
    case Kind::size:
      return "size";
    case Kind::duration:
      return "duration";
    case Kind::word:
      return "word";
    case Kind::list:
      return "list";
  }
  return "";
}

milliseconds parse_duration(std::string_view text) {
  std::int64_t sum = 0;
  std::optional<std::size_t> before;
  if (text.empty()) throw std::invalid_argument(a_duration);
  while (!text.empty()) {
    const auto part = take_part(text, before);
    if (!part || *part > largest - sum) throw std::invalid_argument(a_duration);
    sum += *part;
  }
  return milliseconds{sum};
}

std::int64_t parse_size(std::string_view text) {
  const auto digits = take_digits(text);
  if (!digits.empty() && text.empty()) text = "B";
  for (const auto& unit : size_units) {
    if (text != unit.name) continue;
    if (const auto bytes = scaled(digits, "", unit.factor)) return *bytes;
  }
  throw std::invalid_argument(a_size);
}

std::int64_t parse_number(std::string_view text) {
  if (const auto number = whole(text)) return *number;
  throw std::invalid_argument("a whole number");
}

std::int64_t parse_limit(std::string_view text) {
  if (text == "never") return largest;
  if (const auto number = whole(text)) return *number;
  throw std::invalid_argument("a whole number, or \"never\"");
}

bool parse_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw std::invalid_argument("true or false");
}

std::string duration_text(milliseconds duration) {
  auto left = duration.count();
  std::string text;
  for (const auto& unit : duration_units) {
    const auto count = left / unit.factor;
    left %= unit.factor;
    if (count != 0) text.append(std::to_string(count)).append(unit.name);
  }
  return text.empty() ? "0s" : text;
}

std::string size_text(std::int64_t bytes) {
  for (const auto& unit : size_units) {
    if (bytes != 0 && bytes % unit.factor == 0)
      return std::to_string(bytes / unit.factor).append(unit.name);
  }
  return std::to_string(bytes).append("B");
}

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (is_control(c)) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", static_cast<unsigned char>(c));
      result += escape.data();
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string toml_text(Kind kind, const Value& value) {
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value)) return toml_string(*text);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    std::string result;
    for (const auto& each : *list) result += (result.empty() ? "" : ", ") + toml_string(each);
    return "[" + result + "]";
  }
  const auto number = std::get<std::int64_t>(value);
  if (kind == Kind::duration) return toml_string(duration_text(milliseconds{number}));
  if (kind == Kind::size) return toml_string(size_text(number));
  if (kind == Kind::limit && number == largest) return toml_string("never");
  return std::to_string(number);
}

}  // namespace dovetail::config
