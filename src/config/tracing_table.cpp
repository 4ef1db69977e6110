// Spans for an OpenTelemetry collector: [tracing].
#include <chrono>
#include <stdexcept>

#include "config/section.hpp"

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

void require_endpoint(const std::string& text) {
  if (text.empty() || text.starts_with("http://") || text.starts_with("https://")) return;
  throw std::invalid_argument("a URL that begins with http:// or https://");
}

}  // namespace

void add_tracing(Table& table) {
  const auto otlp = [](auto member) {
    return within(&Settings::tracing, &TracingSettings::otlp, member);
  };
  Section tracing(table, "tracing");
  auto& endpoint = tracing.text("endpoint", otlp(&OtlpOptions::endpoint),
                                "URL of an OpenTelemetry collector (OTLP over HTTP, JSON), such as "
                                "http://localhost:4318/v1/traces; empty: no tracing");
  endpoint.rule = require_endpoint;
  endpoint.secret = Secret::url;
  tracing.text("service_name", otlp(&OtlpOptions::service_name),
               "The name of this service in the traces");
  auto& authorization =
      tracing.text("authorization", within(&Settings::tracing, &TracingSettings::authorization),
                   "The header `authorization` for the collector, such as `Bearer …`");
  authorization.secret = Secret::whole;
  tracing.number("max_queue", {1, 1'000'000}, otlp(&OtlpOptions::max_queue),
                 "Spans that wait for the collector; further ones are dropped");
  tracing.duration("interval", 1ms, 1min, otlp(&OtlpOptions::interval),
                   "How long a batch that is not full waits");
  tracing.duration("timeout", 1ms, 5min, otlp(&OtlpOptions::timeout),
                   "Limit of one request to the collector");
}

}  // namespace dovetail::config
