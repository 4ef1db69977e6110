// The health checks that read one database.
#pragma once

#include <stop_token>

#include "observe/health_source.hpp"
#include "runtime/node.hpp"

namespace dovetail::runtime {

/// Makes the checks one after the other, until one finds that the database does not answer. Does
/// not throw.
void check_database(Node& node, observe::HealthSource::Scope scope, const std::stop_token& stop,
                    observe::HealthRecorder& recorder);

}  // namespace dovetail::runtime
