// Patterns of topics, such as `order.*`.
//
// `*` matches any text, also an empty one and one with dots. Every other character matches itself,
// with regard to case. So `order.*` matches `order.` and `order.paid.eu`, but not `order`.
#pragma once

#include <cstddef>
#include <string_view>

namespace dovetail::core {

/// True if the pattern is a topic: it contains no `*`.
[[nodiscard]] inline bool is_exact(std::string_view pattern) {
  return pattern.find('*') == std::string_view::npos;
}

[[nodiscard]] bool matches(std::string_view pattern, std::string_view topic);

/// The number of characters other than `*`. Of two patterns that match a topic, the one with more
/// of them is meant.
[[nodiscard]] std::size_t literal_length(std::string_view pattern);

}  // namespace dovetail::core
