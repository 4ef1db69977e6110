// The checks of the server's settings.
#pragma once

#include "config/load.hpp"

namespace dovetail::cli {

/// What `dovetail server` would refuse in these settings. Nothing if this program has no server.
[[nodiscard]] config::Findings check_server(const config::Settings& settings);

}  // namespace dovetail::cli
