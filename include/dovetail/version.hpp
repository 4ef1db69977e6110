// The library's version, as the file VERSION says it.
#pragma once

#include <string_view>

namespace dovetail {

[[nodiscard]] std::string_view version();

}  // namespace dovetail
