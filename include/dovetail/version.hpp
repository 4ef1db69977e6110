// The library's version, as in the file VERSION.
#pragma once

#include <string_view>

namespace dovetail {

[[nodiscard]] std::string_view version();

}  // namespace dovetail
