#include "queue/trace_headers.hpp"

#include "dovetail/clock.hpp"

namespace dovetail::queue {

std::optional<TraceContext> trace_in(const Headers& headers) {
  if (headers.empty()) return std::nullopt;
  const auto found = headers.find(traceparent_header);
  return found == headers.end() ? std::nullopt : TraceContext::parse(found->second);
}

void report_span(TraceSink& sink, const Span& span) noexcept {
  try {
    sink.end(span);
  } catch (...) {  // NOLINT(bugprone-empty-catch): documented: tracing changes no outcome
  }
}

std::optional<Headers> traced_headers(std::string_view topic, const Headers& headers,
                                      const QueueOptions& options) {
  const auto current = current_trace();
  if (options.trace_sink == nullptr && !current) return std::nullopt;
  const auto given = trace_in(headers);
  if (options.trace_sink == nullptr && given) return std::nullopt;
  const auto parent = given ? given : current;
  auto context = parent;
  if (options.trace_sink != nullptr) context = parent ? parent->child() : TraceContext::begin();
  auto traced = headers;
  traced.insert_or_assign(std::string{traceparent_header}, context->to_string());
  if (options.trace_sink != nullptr && context->sampled) {
    const auto now = system_clock()->wall();
    report_span(*options.trace_sink,
                {.kind = SpanKind::producer,
                 .name = "enqueue " + std::string{topic},
                 .context = *context,
                 .parent = parent,
                 .started_at = now,
                 .ended_at = now,
                 .attributes = {{"messaging.system", "dovetail"},
                                {"messaging.destination.name", std::string{topic}}}});
  }
  return traced;
}

}  // namespace dovetail::queue
