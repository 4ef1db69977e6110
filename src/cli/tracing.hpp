// The trace sink of the configuration.
#pragma once

#include "cli/cli.hpp"

namespace dovetail::cli {

/// Sets PlatformOptions::trace_sink if the configuration names a collector. It starts a thread, so
/// there must be a LongRun before.
void set_trace_sink(const Globals& globals, PlatformOptions& options);

}  // namespace dovetail::cli
