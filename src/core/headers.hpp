// The headers of a message as both engines store them: a JSON object of strings.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "dovetail/outbox.hpp"

namespace dovetail::core {

[[nodiscard]] std::string to_json(const Headers& headers);

/// What is no string in it (somebody wrote the table by hand) is left out.
[[nodiscard]] Headers headers_from_json(std::string_view json);

/// Texts as a JSON array.
std::string to_json(const std::set<std::string, std::less<>>& texts);

}  // namespace dovetail::core
