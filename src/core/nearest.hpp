// The name that a misspelt word was meant to be.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::core {

/// The number of characters to insert, delete, replace or swap with their neighbour to turn `a`
/// into `b`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that `word` was most likely meant to be; nullopt if none is similar.
[[nodiscard]] std::optional<std::string> nearest(const std::string& word,
                                                 const std::vector<std::string>& candidates);

}  // namespace dovetail::core
