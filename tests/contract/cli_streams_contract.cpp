// Streams on the command line.
#include "support/cli_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class CliStreamsContract : public CliTest {
 protected:
  CliStreamsContract() {
    static_cast<void>(dovetail({"migrate"}));
    for (const auto* payload : {"1", "2"}) {
      EXPECT_EQ(dovetail({"enqueue", "t", payload, "--stream", "order-42"}).code, 0);
    }
  }
  /// Fails the first message permanently.
  void block() {
    const auto claimed = ask({"claim", "--streams", "--batch", "1"});
    ASSERT_THAT(claimed["messages"], SizeIs(1));
    EXPECT_EQ(claimed["messages"][0]["stream"], "order-42");
    const auto claim = claimed["messages"][0]["id"].get<std::string>() + ":" +
                       std::to_string(claimed["messages"][0]["epoch"].get<int>());
    EXPECT_EQ(dovetail({"fail", claim, "--owner", claimed["owner"], "--error", "broken"}).code, 0);
  }
};
DOVETAIL_CONTRACT(CliStreamsContract);

TEST_P(CliStreamsContract, StreamsAreListedAndShown) {
  const auto listed = dovetail({"streams", "list"});
  EXPECT_THAT(listed.out, HasSubstr("order-42"));
  EXPECT_THAT(listed.out, HasSubstr("ready"));
  const auto page = ask({"streams", "list", "--limit", "1"});
  ASSERT_THAT(page["streams"], SizeIs(1));
  EXPECT_EQ(page["streams"][0]["stream"], "order-42");
  EXPECT_EQ(page["next_start_after"], "order-42");
  const auto rest = ask({"streams", "list", "--start-after", "order-42"});
  EXPECT_THAT(rest["streams"], SizeIs(0));
  EXPECT_TRUE(rest["next_start_after"].is_null());
  const auto shown = ask({"streams", "show", "order-42"});
  EXPECT_EQ(shown["messages"], 2);
  EXPECT_EQ(shown["state"], "ready");
  const auto unknown = dovetail({"streams", "show", "order-43"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("the stream order-43 has no messages"));
}

TEST_P(CliStreamsContract, ABlockedStreamIsResumedOrSkipped) {
  EXPECT_EQ(dovetail({"streams", "list", "--blocked"}).out, "no stream is blocked\n");
  block();
  const auto listed = dovetail({"streams", "list", "--blocked"});
  EXPECT_THAT(listed.out, HasSubstr("broken"));
  EXPECT_EQ(dovetail({"streams", "resume", "order-42"}).out, "resumed order-42\n");
  const auto again = dovetail({"streams", "resume", "order-42"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("is not blocked"));
  block();
  EXPECT_EQ(ask({"streams", "skip", "order-42"})["skipped"], true);
  EXPECT_EQ(ask({"streams", "show", "order-42"})["messages"], 1);
}

}  // namespace
}  // namespace dovetail::testing
