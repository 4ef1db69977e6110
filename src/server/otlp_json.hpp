// Spans in the JSON encoding of OTLP.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "dovetail/trace.hpp"

namespace dovetail::server {

/// The body of a request. Text that is not UTF-8 is replaced.
[[nodiscard]] std::string otlp_json(std::span<const Span> spans, std::string_view service_name);

}  // namespace dovetail::server
