#include "runtime/consumer_span.hpp"

#include "queue/trace_headers.hpp"

namespace dovetail::runtime {
namespace {

/// The first attempt is a child of the producer span. A retry begins a trace.
std::optional<TraceContext> context_of(const QueueScope& scope, const Message& message,
                                       const std::optional<TraceContext>& producer) {
  if (scope.trace_sink == nullptr) return producer;
  if (producer && message.attempts == 0) return producer->child();
  auto context = TraceContext::begin();
  if (producer) context.sampled = producer->sampled;
  return context;
}

}  // namespace

ConsumerSpan::ConsumerSpan(const QueueScope& scope, const Message& message)
    : scope_(scope),
      message_(message),
      producer_(queue::trace_in(message.headers)),
      context_(context_of(scope, message, producer_)),
      trace_(context_) {
  if (scope.trace_sink != nullptr) started_at_ = scope.database.clock().wall();
}

ConsumerSpan::~ConsumerSpan() {
  if (scope_.trace_sink == nullptr || !context_->sampled) return;
  const bool first = message_.attempts == 0;
  queue::report_span(*scope_.trace_sink,
                     {.kind = SpanKind::consumer,
                      .name = "process " + message_.topic,
                      .context = *context_,
                      .parent = first ? producer_ : std::nullopt,
                      .link = first ? std::nullopt : producer_,
                      .started_at = started_at_,
                      .ended_at = scope_.database.clock().wall(),
                      .error = error_,
                      .attributes = {{"messaging.system", "dovetail"},
                                     {"messaging.destination.name", message_.topic},
                                     {"messaging.message.id", message_.message_id.to_string()},
                                     {"dovetail.queue", std::string{scope_.queue()}},
                                     {"dovetail.store", scope_.database.name()},
                                     {"dovetail.attempt", std::to_string(message_.attempts + 1)}}});
}

}  // namespace dovetail::runtime
