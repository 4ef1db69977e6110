#include "core/text.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace dovetail::core {
namespace {

struct Utf8Lead {
  std::size_t length;
  std::uint32_t smallest;  // a code point below it is an overlong encoding
  std::uint32_t bits;
};

std::optional<Utf8Lead> lead_of(unsigned char byte) {
  if (byte < 0x80) return Utf8Lead{1, 0, byte};
  if ((byte & 0xE0) == 0xC0) return Utf8Lead{2, 0x80, byte & 0x1FU};
  if ((byte & 0xF0) == 0xE0) return Utf8Lead{3, 0x800, byte & 0x0FU};
  if ((byte & 0xF8) == 0xF0) return Utf8Lead{4, 0x10000, byte & 0x07U};
  return std::nullopt;
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// The length of the character at `position`, or nothing when it is malformed.
std::optional<std::size_t> character_at(std::string_view text, std::size_t position) {
  const auto lead = lead_of(static_cast<unsigned char>(text[position]));
  if (!lead || text.size() - position < lead->length || text[position] == '\0') return std::nullopt;
  auto point = lead->bits;
  for (std::size_t i = 1; i < lead->length; ++i) {
    const char c = text[position + i];
    if (!is_continuation(c)) return std::nullopt;
    point = point << 6 | (static_cast<unsigned char>(c) & 0x3FU);
  }
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  if (point < lead->smallest || point > 0x10FFFF || surrogate) return std::nullopt;
  return lead->length;
}

/// The number of leading ASCII characters. Reads eight at a time, because most texts are ASCII.
std::size_t ascii_prefix(std::string_view text) {
  constexpr std::uint64_t ones = 0x0101010101010101ULL;
  constexpr std::uint64_t high = 0x8080808080808080ULL;
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + i, 8);
    // The second term has a high bit where a byte is zero, and perhaps where one follows a zero.
    if (((eight | (eight - ones)) & high) != 0) break;
  }
  return i;
}

}  // namespace

std::optional<std::size_t> utf8_length(std::string_view text) {
  auto count = ascii_prefix(text);
  for (std::size_t i = count; i < text.size(); ++count) {
    const auto length = character_at(text, i);
    if (!length) return std::nullopt;
    i += *length;
  }
  return count;
}

std::string printable(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto length = character_at(text, i);
    clean += length ? text.substr(i, *length) : std::string_view{"?"};
    i += length.value_or(1);
  }
  return clean;
}

void require_identifier(std::string_view what, std::string_view name) {
  const auto starts = [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); };
  const auto goes_on = [&](char c) { return starts(c) || (c >= '0' && c <= '9'); };
  const bool good = !name.empty() && name.size() <= 51 && starts(name.front()) &&
                    std::ranges::all_of(name, goes_on);
  if (!good) {
    throw std::invalid_argument(std::string{what} + " must match ^[a-z_][a-z0-9_]{0,50}$, got \"" +
                                std::string{trimmed(name, 60)} + "\"");
  }
}

std::string_view trimmed(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && is_continuation(text[limit])) --limit;
  return text.substr(0, limit);
}

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name{
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free};
  return status == 0 && name ? name.get() : type.name();
}

std::string with_schema(std::string_view sql, std::string_view schema) {
  static constexpr std::string_view mark = "{schema}";
  std::string result;
  result.reserve(sql.size() + 64);
  for (std::size_t at = 0;;) {
    const auto next = sql.find(mark, at);
    result += sql.substr(at, next - at);
    if (next == std::string_view::npos) return result;
    result += schema;
    at = next + mark.size();
  }
}

}  // namespace dovetail::core
