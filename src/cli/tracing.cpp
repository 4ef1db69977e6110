#include "cli/tracing.hpp"

#include <stdexcept>

#include "dovetail/otlp.hpp"

namespace dovetail::cli {

#ifdef DOVETAIL_WITH_SERVER

void set_trace_sink(const Globals& globals, PlatformOptions& options) {
  const auto& tracing = globals.loaded.settings.tracing;
  if (tracing.otlp.endpoint.empty()) return;
  auto otlp = tracing.otlp;
  if (!tracing.authorization.empty())
    otlp.headers.push_back("authorization: " + tracing.authorization);
  options.trace_sink = std::make_shared<OtlpExporter>(std::move(otlp), Metrics{options.metrics});
}

#else

void set_trace_sink(const Globals& globals, PlatformOptions& /*options*/) {
  if (globals.loaded.settings.tracing.otlp.endpoint.empty()) return;
  throw std::invalid_argument(
      "tracing.endpoint needs a build with -DDOVETAIL_SERVER=ON: this one cannot send spans");
}

#endif

}  // namespace dovetail::cli
