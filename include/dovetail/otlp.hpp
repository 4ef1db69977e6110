// Sends spans to an OpenTelemetry collector: OTLP over HTTP, as JSON.
//
//   options.trace_sink = std::make_shared<dovetail::OtlpExporter>(
//       dovetail::OtlpOptions{.endpoint = "http://localhost:4318/v1/traces",
//                             .service_name = "orders"});
//   auto platform = dovetail::Platform::open(url, options);
//
// It is a part of the library dovetail::server (built with DOVETAIL_SERVER=ON).
//
// Guarantees
//   * end() does not wait for the collector. A thread of the exporter sends the spans in batches.
//   * Memory is bounded: while `max_queue` spans wait, further spans are dropped and counted.
// Not guaranteed
//   * That every span arrives. A batch that the collector does not accept is dropped and counted.
//
// Threads: an OtlpExporter may be shared between threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dovetail/metrics.hpp"
#include "dovetail/trace.hpp"

namespace dovetail {

struct OtlpOptions {
  /// The full URL, `http` or `https`.
  std::string endpoint = "http://localhost:4318/v1/traces";
  std::string service_name = "dovetail";
  /// Lines such as `authorization: Bearer …`. They are never logged.
  std::vector<std::string> headers{};
  std::size_t max_queue = 2'048;              ///< 1 to 1,000,000.
  std::size_t max_batch = 512;                ///< 1 to 10,000.
  std::chrono::milliseconds interval{2'000};  ///< A batch that is not full waits: 1 ms to 1 min.
  std::chrono::milliseconds timeout{5'000};   ///< Of one request: 1 ms to 5 min.
};

struct OtlpCounts {
  std::uint64_t sent = 0;     ///< Spans that the collector has accepted.
  std::uint64_t dropped = 0;  ///< Spans that are lost.
  std::string last_error{};   ///< Of the last request that failed.
};

class OtlpExporter final : public TraceSink {
 public:
  /// Throws std::invalid_argument for an endpoint that is no URL, and std::out_of_range. `metrics`
  /// counts the spans (`dovetail_trace_spans_total`).
  explicit OtlpExporter(OtlpOptions options = {}, Metrics metrics = {});
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;
  /// Sends the spans that wait. Takes about `timeout` at most.
  ~OtlpExporter() override;

  void end(const Span& span) override;
  [[nodiscard]] OtlpCounts counts() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail
