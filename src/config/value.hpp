// The values of settings, and their text forms.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dovetail::config {

enum class Kind {
  text,
  path,  ///< Of a file. In a configuration file, it is relative to the folder of that file.
  boolean,
  number,
  limit,     ///< A number, or "never", which is the greatest number.
  size,      ///< In bytes: "64MiB".
  duration,  ///< In milliseconds: "1h30min".
  word,      ///< One of some words.
  list,      ///< Of texts.
};

[[nodiscard]] std::string_view to_string(Kind kind);

/// Numbers, sizes and durations are std::int64_t. An empty text, or an empty list, means "not set".
using Value = std::variant<std::string, bool, std::int64_t, std::vector<std::string>>;

/// Units: ms, s, min (or m), h, d, from the greatest to the smallest, as in "1h30min" and "0.5s".
/// Throws std::invalid_argument, whose text follows the words "must be".
[[nodiscard]] std::chrono::milliseconds parse_duration(std::string_view text);
/// A number of bytes, or a number with one of the units B, KiB, MiB, GiB and TiB. Throws like
/// parse_duration().
[[nodiscard]] std::int64_t parse_size(std::string_view text);
/// Digits, with an optional minus sign. Throws like parse_duration().
[[nodiscard]] std::int64_t parse_number(std::string_view text);
/// A number, or `never`. Throws like parse_duration().
[[nodiscard]] std::int64_t parse_limit(std::string_view text);
/// `true` or `false`. Throws like parse_duration().
[[nodiscard]] bool parse_boolean(std::string_view text);

/// "1h30min", "500ms", "0s"
[[nodiscard]] std::string duration_text(std::chrono::milliseconds duration);
/// "64MiB", "1000B"
[[nodiscard]] std::string size_text(std::int64_t bytes);
/// `text` as a TOML string.
[[nodiscard]] std::string toml_string(std::string_view text);
/// A value as TOML. It does not hide secrets.
[[nodiscard]] std::string toml_text(Kind kind, const Value& value);

}  // namespace dovetail::config
