// This machine.
#pragma once

#include <string>

namespace dovetail::core {

/// Its name, as UTF-8; `?` when it has none.
[[nodiscard]] std::string host_name();

}  // namespace dovetail::core
