// Checks of the server's options.
#pragma once

#include "dovetail/server.hpp"

namespace dovetail::server {

/// Returns the options. Throws std::invalid_argument or std::out_of_range that names a bad one; the
/// text contains no secrets. It reads no files.
const ServerOptions& checked(const ServerOptions& options);

}  // namespace dovetail::server
