// Events and subscriptions on the command line.
#include "support/cli_test.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;

class CliEventsContract : public CliTest {
 protected:
  CliEventsContract() {
    auto options = backend.options();
    options.clock = nullptr;
    platform.emplace(Platform::open(backend.url(), options));
  }
  std::optional<Platform> platform;
};
DOVETAIL_CONTRACT(CliEventsContract);

TEST_P(CliEventsContract, EventsAreAppendedAndRead) {
  EXPECT_EQ(dovetail({"events", "append", "order-1", "Placed", "{}"}).out, "1\n");
  EXPECT_EQ(dovetail({"events", "append", "order-1", "Paid", "x", "--expected", "1"}).out, "2\n");
  const auto conflict = dovetail({"events", "append", "order-1", "Paid", "--expected", "1"});
  EXPECT_EQ(conflict.code, 1);
  EXPECT_THAT(conflict.err, HasSubstr("expected version 1, actual version 2"));
  EXPECT_EQ(dovetail({"events", "append", "order-1", "Paid", "--expected", "soon"}).code, 2);
  EXPECT_EQ(dovetail({"events", "append", "a", "Other", "y", "--expected", "no_stream"}).out,
            "1\n");
  EXPECT_EQ(dovetail({"events", "read", "order-1"}).out, "order-1 1 Placed {}\norder-1 2 Paid x\n");
  EXPECT_EQ(dovetail({"events", "read", "order-1", "--backwards", "--limit", "1"}).out,
            "order-1 2 Paid x\n");
  EXPECT_EQ(dovetail({"events", "read", "--all", "--type", "Paid", "--type", "Other"}).out,
            "2 order-1 2 Paid x\n3 a 1 Other y\n");
  EXPECT_EQ(dovetail({"events", "read", "--all", "--prefix", "order-", "--from", "2"}).out,
            "2 order-1 2 Paid x\n");
  EXPECT_EQ(dovetail({"events", "read"}).code, 2);
  EXPECT_THAT(dovetail({"events", "streams", "--prefix", "order-"}).out, HasSubstr("order-1"));
}

TEST_P(CliEventsContract, SubscriptionsAreOperated) {
  EXPECT_EQ(dovetail({"subscriptions", "list"}).out, "there are no subscriptions\n");
  EXPECT_EQ(dovetail({"subscriptions", "show", "s"}).code, 1);
  auto& events = platform->events();
  for (int i = 0; i < 3; ++i) events.append("bad", ExpectedVersion::any(), {{.type = "T"}});
  events.subscribe(
      "s",
      {.on_failure = SubscriptionFailure::park_stream,
       .max_attempts = 1,
       .backoff = [](int) { return std::chrono::milliseconds{1}; }},
      [](std::span<const Event>, SubscriptionContext&) { throw std::runtime_error("broken"); });
  platform->start();
  ASSERT_TRUE(eventually([&] { return !events.subscriptions().parked("s").empty(); }));
  platform->stop();
  EXPECT_THAT(dovetail({"subscriptions", "list"}).out, HasSubstr("s"));
  EXPECT_THAT(dovetail({"subscriptions", "show", "s"}).out, HasSubstr("broken"));
  EXPECT_EQ(dovetail({"subscriptions", "pause", "s"}).code, 0);
  EXPECT_EQ(dovetail({"subscriptions", "pause", "s"}).code, 1);
  EXPECT_EQ(dovetail({"subscriptions", "resume", "s"}).code, 0);
  EXPECT_EQ(dovetail({"subscriptions", "resume", "s", "--stream", "bad"}).code, 0);
  EXPECT_EQ(dovetail({"subscriptions", "resume", "s", "--parked"}).code, 1);
  EXPECT_EQ(dovetail({"subscriptions", "skip", "s", "1"}).code, 0);
  EXPECT_EQ(dovetail({"subscriptions", "rebuild", "s"}).code, 0);
  EXPECT_THAT(events.subscriptions().parked("s"), ::testing::IsEmpty());
  EXPECT_EQ(dovetail({"subscriptions", "rebuild", "nothing"}).code, 1);
}

}  // namespace
}  // namespace dovetail::testing
