// Rules about text: validity, and safe display.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>

namespace dovetail::core {

/// The number of characters (code points), or nothing if `text` is not well-formed UTF-8 without
/// NUL. PostgreSQL's text type cannot store NUL, and both engines have the same rule.
std::optional<std::size_t> utf8_length(std::string_view text);

/// Checks a schema or table name against `^[a-z_][a-z0-9_]{0,50}$`; throws std::invalid_argument
/// otherwise.
void require_identifier(std::string_view what, std::string_view name);

/// `text` cut to at most `limit` bytes at a character boundary.
std::string_view trimmed(std::string_view text, std::size_t limit);

/// `text` with every byte that is not part of well-formed UTF-8, and every NUL, replaced by `?`.
std::string printable(std::string_view text);

/// A view of the text, if there is one.
inline std::optional<std::string_view> view_of(const std::optional<std::string>& text) {
  return text ? std::optional<std::string_view>{*text} : std::nullopt;
}

/// The name of a type as a programmer writes it: `std::runtime_error`.
std::string type_name(const std::type_info& type);

/// Replaces every `{schema}` in `sql`.
std::string with_schema(std::string_view sql, std::string_view schema);

}  // namespace dovetail::core
