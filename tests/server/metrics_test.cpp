// The page for Prometheus.
#include "server/metrics_page.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"
#include "support/server_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Complaints of promtool about a page; empty: none.
std::string complaints_about(const std::string& page) {
  const auto result = run_command({"promtool", "check", "metrics"}, page);
  return result.code == 0 ? result.out + result.err
                          : "exit " + std::to_string(result.code) + ": " + result.out + result.err;
}

class ServerMetrics : public ServerTest {};
DOVETAIL_CONTRACT(ServerMetrics);

TEST_P(ServerMetrics, ThePageHasCountersGaugesAndHistograms) {
  platform.on("orders", [](const Message& message, HandlerContext&) {
    if (message.payload == "bad") throw PermanentFailure("refused");
  });
  for (const auto* payload : {"", "", "bad"}) {
    platform.outbox().enqueue({.topic = "orders", .payload = payload});
  }
  platform.start();
  ASSERT_TRUE(
      eventually([&] { return platform.metrics().counter("dovetail_settled_total") == 3; }));
  serve();
  const auto answer = get("/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const auto labels = "{store=\"" + platform.name() + "\",queue=\"outbox\"";
  const auto& page = answer.body;
  EXPECT_THAT(page, HasSubstr("# HELP dovetail_enqueued_total Messages stored.\n"
                              "# TYPE dovetail_enqueued_total counter\n"));
  EXPECT_THAT(page, HasSubstr("dovetail_enqueued_total" + labels + ",topic=\"orders\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("dovetail_settled_total" + labels +
                              ",topic=\"orders\",outcome=\"done\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("dovetail_settled_total" + labels +
                              ",topic=\"orders\",outcome=\"dead_letter\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE dovetail_handler_seconds histogram\n"));
  EXPECT_THAT(page,
              HasSubstr("dovetail_handler_seconds_count" + labels + ",topic=\"orders\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("dovetail_handler_seconds_bucket" + labels +
                              ",topic=\"orders\",le=\"+Inf\"} 3\n"));
  EXPECT_THAT(page, HasSubstr(",topic=\"orders\",le=\"0.001\"}"));
  EXPECT_THAT(page, HasSubstr(",topic=\"orders\",le=\"300\"}"));
  EXPECT_THAT(page, HasSubstr("# TYPE dovetail_dead_letters gauge\n"));
  EXPECT_THAT(page, HasSubstr("dovetail_dead_letters" + labels + "} 1\n"));
  EXPECT_EQ(complaints_about(page), "");
}

TEST(MetricsPage, EscapesHostileLabels) {
  MetricsRegistry registry;
  const std::string hostile = "a\"b\\c\nd\xc3\xa9{}=,#";
  const std::array labels{MetricLabel{"store", "s"}, MetricLabel{"queue", "outbox"},
                          MetricLabel{"topic", hostile}};
  registry.count("dovetail_enqueued_total", 1, labels);
  registry.time("dovetail_handler_seconds", std::chrono::milliseconds{3}, labels);
  const auto page = server::metrics_page(registry.snapshot());
  EXPECT_THAT(page, HasSubstr("topic=\"a\\\"b\\\\c\\nd\xc3\xa9{}=,#\"} 1\n"));
  EXPECT_EQ(complaints_about(page), "");
}

TEST(MetricsPage, NamesOfTheUsersBecomeValid) {
  MetricsRegistry registry;
  registry.count("shop.orders-total", 2, {});
  registry.gauge("9 lives", 9, {});
  const auto page = server::metrics_page(registry.snapshot());
  EXPECT_THAT(page, HasSubstr("shop_orders_total 2\n"));
  EXPECT_THAT(page, HasSubstr("_9_lives 9\n"));
}

TEST(MetricsPage, BucketsAreCumulative) {
  MetricsRegistry registry;
  for (const int ms : {1, 2, 400'000}) {
    registry.time("dovetail_round_trip_seconds", std::chrono::milliseconds{ms}, {});
  }
  const auto page = server::metrics_page(registry.snapshot());
  EXPECT_THAT(page, HasSubstr("dovetail_round_trip_seconds_bucket{le=\"0.001\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("dovetail_round_trip_seconds_bucket{le=\"0.0025\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("dovetail_round_trip_seconds_bucket{le=\"300\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("dovetail_round_trip_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("dovetail_round_trip_seconds_sum 400.003\n"));
}

TEST(MetricsPage, PromtoolNoticesBadPages) {
  EXPECT_NE(complaints_about("# TYPE a counter\na{b=\"c} 1\n"), "")
      << "the check must be able to fail";
}

}  // namespace
}  // namespace dovetail::testing
