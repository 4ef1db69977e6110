// The context of its trace in the headers of a new message.
#pragma once

#include <optional>
#include <string_view>

#include "dovetail/queue.hpp"
#include "dovetail/trace.hpp"

namespace dovetail::queue {

/// The context in the headers; nullopt if there is none, or if it is not valid.
[[nodiscard]] std::optional<TraceContext> trace_in(const Headers& headers);

/// The headers with the context of the message. Nullopt: they stay as they are. With a sink, this
/// is a producer span.
[[nodiscard]] std::optional<Headers> traced_headers(std::string_view topic, const Headers& headers,
                                                    const QueueOptions& options);

/// Gives a span to the sink.
void report_span(TraceSink& sink, const Span& span) noexcept;

}  // namespace dovetail::queue
