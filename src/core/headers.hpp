// The headers of a message as both engines store them: a JSON object of strings.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/outbox.hpp"

namespace dovetail::core {

[[nodiscard]] std::string to_json(const Headers& headers);

/// Ignores values that are not strings, which only a manual change of the table can store.
[[nodiscard]] Headers headers_from_json(std::string_view json);

/// Writes the texts as a JSON array.
std::string to_json(const std::set<std::string, std::less<>>& texts);

/// The texts of a JSON array. Empty if it is not an array of texts.
[[nodiscard]] std::vector<std::string> texts_from_json(std::string_view json);

}  // namespace dovetail::core
