// The exporter of spans, against a small collector.
#include "dovetail/otlp.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/span_collector.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Span span_named(const std::string& name) {
  const auto producer = TraceContext::begin();
  return {.kind = SpanKind::consumer,
          .name = name,
          .context = producer.child(),
          .parent = producer,
          .started_at = WallTime{std::chrono::microseconds{1'700'000'000'000'001}},
          .ended_at = WallTime{std::chrono::microseconds{1'700'000'000'000'002}},
          .attributes = {{"messaging.destination.name", "a\"\xff"}}};
}

TEST(OtlpExporter, SendsSpansOfHandlersToACollector) {
  SpanCollector collector;
  const Backend backend(BackendKind::sqlite);
  auto options = backend.options();
  options.trace_sink =
      std::make_shared<OtlpExporter>(OtlpOptions{.endpoint = collector.url(),
                                                 .service_name = "orders",
                                                 .headers = {"authorization: Bearer secret"},
                                                 .interval = std::chrono::milliseconds{10}});
  auto platform = Platform::open(backend.url(), options);
  platform.on("a", [](const Message&, HandlerContext&) { throw PermanentFailure("no"); });
  platform.outbox().enqueue({.topic = "a"});
  platform.start();
  ASSERT_TRUE(eventually([&] { return collector.spans().size() == 2; }));
  const auto produced = collector.spans()[0];
  const auto consumed = collector.spans()[1];
  EXPECT_EQ(produced.at("name"), "enqueue a");
  EXPECT_EQ(produced.at("kind"), 4);
  EXPECT_EQ(consumed.at("name"), "process a");
  EXPECT_EQ(consumed.at("kind"), 5);
  EXPECT_EQ(consumed.at("traceId"), produced.at("traceId"));
  EXPECT_EQ(consumed.at("parentSpanId"), produced.at("spanId"));
  EXPECT_EQ(consumed.at("status").at("message"), "no");
  const auto request = collector.requests().at(0);
  EXPECT_THAT(request, HasSubstr("POST /v1/traces HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("authorization: Bearer secret\r\n"));
  EXPECT_THAT(request, HasSubstr("content-type: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr(R"({"key":"service.name","value":{"stringValue":"orders"}})"));
}

TEST(OtlpExporter, SendsWhatWaitsAtItsEndInValidJson) {
  SpanCollector collector;
  {
    OtlpExporter exporter({.endpoint = collector.url(), .interval = std::chrono::seconds{60}});
    for (int i = 0; i < 700; ++i) exporter.end(span_named("s" + std::to_string(i)));
  }
  const auto spans = collector.spans();
  ASSERT_THAT(spans, SizeIs(700));
  EXPECT_EQ(spans[0].at("startTimeUnixNano"), "1700000000000001000");
  EXPECT_EQ(spans[699].at("name"), "s699");
}

TEST(OtlpExporter, DropsSpansBeyondItsLimitWithoutWaiting) {
  OtlpExporter exporter({.endpoint = "http://127.0.0.1:9/",
                         .max_queue = 10,
                         .max_batch = 10'000,
                         .interval = std::chrono::seconds{60}});
  for (int i = 0; i < 25; ++i) exporter.end(span_named("s"));
  EXPECT_EQ(exporter.counts().dropped, 15U);
}

TEST(OtlpExporter, CountsWhatTheCollectorRefuses) {
  SpanCollector collector("503 Service Unavailable");
  const auto registry = std::make_shared<MetricsRegistry>();
  OtlpExporter exporter({.endpoint = collector.url(), .interval = std::chrono::milliseconds{1}},
                        Metrics{registry});
  exporter.end(span_named("s"));
  EXPECT_TRUE(eventually([&] { return exporter.counts().dropped == 1; }));
  EXPECT_EQ(exporter.counts().last_error, "the collector answered 503");
  EXPECT_TRUE(
      eventually([&] { return registry->snapshot().counter("dovetail_trace_spans_total") == 1; }));
  EXPECT_EQ(exporter.counts().sent, 0U);
}

TEST(OtlpExporter, RefusesBadOptions) {
  EXPECT_THROW(OtlpExporter({.endpoint = "file:///etc/passwd"}), std::invalid_argument);
  EXPECT_THROW(OtlpExporter({.headers = {"a: b\r\nc: d"}}), std::invalid_argument);
  EXPECT_THROW(OtlpExporter({.max_queue = 0}), std::out_of_range);
}

}  // namespace
}  // namespace dovetail::testing
