// Hides the values of some JSON fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dovetail::server::api {

inline constexpr const char* redacted_mark = "[redacted]";

/// Whether a field or header of this name is hidden. Compares ASCII letters without case.
[[nodiscard]] bool is_redacted(std::string_view name, const std::vector<std::string>& names);

/// `payload` with "[redacted]" in place of the values of these fields, at any depth. The rest of
/// the text stays byte for byte. A payload that is not JSON stays as it is.
[[nodiscard]] std::string redacted(const std::string& payload,
                                   const std::vector<std::string>& names);

}  // namespace dovetail::server::api
