// The consumer span of one call of a handler.
#pragma once

#include <optional>
#include <string_view>

#include "dovetail/trace.hpp"
#include "runtime/invocation.hpp"

namespace dovetail::runtime {

/// While it exists, messages that the thread enqueues belong to the trace of the message.
class ConsumerSpan {
 public:
  ConsumerSpan(const QueueScope& scope, const Message& message);
  ConsumerSpan(const ConsumerSpan&) = delete;
  ConsumerSpan& operator=(const ConsumerSpan&) = delete;
  ~ConsumerSpan();

  void fail(std::string_view error) { error_ = error; }

 private:
  const QueueScope& scope_;
  const Message& message_;
  std::optional<TraceContext> producer_;
  std::optional<TraceContext> context_;
  WallTime started_at_{};
  std::string error_;
  TraceScope trace_;
};

}  // namespace dovetail::runtime
