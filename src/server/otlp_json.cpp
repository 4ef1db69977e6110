#include "server/otlp_json.hpp"

#include <nlohmann/json.hpp>

#include "dovetail/version.hpp"

namespace dovetail::server {
namespace {

using Json = nlohmann::ordered_json;

// Numbers of the protocol.
constexpr int kind_producer = 4;
constexpr int kind_consumer = 5;
constexpr int status_error = 2;

/// The fields of a traceparent: `00-TRACE-SPAN-01`.
std::string trace_id_of(const TraceContext& context) {
  return context.to_string().substr(3, 32);
}
std::string span_id_of(const TraceContext& context) {
  return context.to_string().substr(36, 16);
}

std::string nanoseconds_of(WallTime time) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch());
  return std::to_string(since.count());
}

Json attribute(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

Json json_of(const Span& span) {
  Json json{{"traceId", trace_id_of(span.context)}, {"spanId", span_id_of(span.context)}};
  if (span.parent) json["parentSpanId"] = span_id_of(*span.parent);
  json["name"] = span.name;
  json["kind"] = span.kind == SpanKind::producer ? kind_producer : kind_consumer;
  json["startTimeUnixNano"] = nanoseconds_of(span.started_at);
  json["endTimeUnixNano"] = nanoseconds_of(span.ended_at);
  json["attributes"] = Json::array();
  for (const auto& [key, value] : span.attributes) {
    json["attributes"].push_back(attribute(key, value));
  }
  if (span.link) {
    json["links"] =
        Json::array({{{"traceId", trace_id_of(*span.link)}, {"spanId", span_id_of(*span.link)}}});
  }
  if (!span.error.empty()) json["status"] = {{"code", status_error}, {"message", span.error}};
  return json;
}

}  // namespace

std::string otlp_json(std::span<const Span> spans, std::string_view service_name) {
  auto all = Json::array();
  for (const auto& span : spans) all.push_back(json_of(span));
  const Json scope{{"scope", {{"name", "dovetail"}, {"version", version()}}}, {"spans", all}};
  Json resource;
  resource["resource"]["attributes"] = Json::array({attribute("service.name", service_name)});
  resource["scopeSpans"] = Json::array({scope});
  Json body;
  body["resourceSpans"] = Json::array({resource});
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dovetail::server
