// Webhooks in the configuration file and on the command line.
#pragma once

#include "transport/kind.hpp"

namespace dovetail::transport::webhook {

[[nodiscard]] transport::Kind kind();

}  // namespace dovetail::transport::webhook
