// The name of this machine.
#pragma once

#include <string>

namespace dovetail::core {

/// The host name as UTF-8, or `?` if it has none.
[[nodiscard]] std::string host_name();

}  // namespace dovetail::core
