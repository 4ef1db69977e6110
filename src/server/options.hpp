// Checks of the server's options.
#pragma once

#include "dovetail/server.hpp"

namespace dovetail::server {

/// Throws std::invalid_argument or std::out_of_range that names the option.
void require_valid(const ServerOptions& options);

}  // namespace dovetail::server
