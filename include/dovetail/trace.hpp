// Tracing: a message carries the context of the trace that it belongs to, and spans go to a sink.
//
// The context is a W3C `traceparent`, in the header of that name.
//
//   * A message that is enqueued in a handler, or while a TraceScope exists, belongs to the same
//     trace. So does a message whose headers contain a `traceparent` already. This needs no sink.
//   * With PlatformOptions::trace_sink, each enqueue is a producer span, and each call of a handler
//     a consumer span. The first attempt of a message is a child of its producer span. A retry
//     begins a trace of its own, with a link to the producer span.
//
// Timers, steps of joins, messages that wait for joins, their continuations, and job runs that a
// handler triggers carry the context, too. Runs that a schedule starts, and slices of fan-outs,
// begin traces of their own.
//
// Not guaranteed
//   * A producer span ends when the message is handed to its transaction. A rollback does not take
//     the span back.
//   * A `traceparent` that is not valid is ignored.
//
// Threads: a TraceSink must accept concurrent calls, and must not block: handlers wait for it. A
// TraceScope belongs to the thread that created it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dovetail/clock.hpp"

namespace dovetail {

/// The name of the header.
inline constexpr std::string_view traceparent_header = "traceparent";

/// The place of a span in a trace.
struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};  ///< Not all zero.
  std::array<std::uint8_t, 8> span_id{};    ///< Not all zero.
  bool sampled = true;                      ///< False: spans of this trace are not recorded.

  /// Reads a `traceparent`: `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`. Returns
  /// nullopt for everything that the W3C recommendation does not allow. Newer versions than 00 are
  /// read as it requires.
  [[nodiscard]] static std::optional<TraceContext> parse(std::string_view traceparent);
  /// The first span of a new trace.
  [[nodiscard]] static TraceContext begin();
  /// A new span of the same trace.
  [[nodiscard]] TraceContext child() const;
  /// The `traceparent`.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

/// The context of the handler that this thread calls, or of its TraceScope.
[[nodiscard]] std::optional<TraceContext> current_trace();

/// Makes a context the current one of this thread until the end of the scope.
class TraceScope {
 public:
  /// Without a context, messages belong to no trace until the end of the scope.
  explicit TraceScope(std::optional<TraceContext> context);
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  ~TraceScope();

 private:
  std::optional<TraceContext> before_;
};

enum class SpanKind : std::uint8_t { producer, consumer };

/// A span that has ended.
struct Span {
  SpanKind kind = SpanKind::producer;
  std::string name{};  ///< `enqueue orders`, `process orders`.
  TraceContext context{};
  std::optional<TraceContext> parent{};
  std::optional<TraceContext> link{};  ///< Of a retry: the producer span.
  WallTime started_at{};               ///< By the clock of this process.
  WallTime ended_at{};
  std::string error{};  ///< Of a handler that failed. Empty: it succeeded.
  /// Attributes by the names of OpenTelemetry: `messaging.destination.name`. Never payloads.
  std::vector<std::pair<std::string, std::string>> attributes{};
};

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// Exceptions are ignored: tracing never changes an outcome.
  virtual void end(const Span& span) = 0;
};

}  // namespace dovetail
