// Joins on the command line.
#include "support/cli_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CliJoinsContract : public CliTest {
 protected:
  Platform platform = backend.open();
  Joins& joins = platform.joins();
};
DOVETAIL_CONTRACT(CliJoinsContract);

TEST_P(CliJoinsContract, JoinsAreListedAndShownWithTheirMembers) {
  EXPECT_EQ(dovetail({"joins", "list"}).out, "no joins\n");
  const auto first =
      joins.start({.grouping_key = "customer-7", .expected_steps = 2, .metadata = "{}"});
  const auto second = joins.start({.expected_steps = 1});
  joins.cancel(second);
  const auto step = dovetail({"enqueue", "t", "--join", first.to_string()});
  ASSERT_EQ(step.code, 0) << step.err;
  const auto message = step.out.substr(0, step.out.find('\n'));

  const auto list = dovetail({"joins", "list"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_THAT(list.out, AllOf(HasSubstr(first.to_string()), HasSubstr("pending"), HasSubstr("0/2"),
                              HasSubstr("customer-7"), HasSubstr(second.to_string()),
                              HasSubstr("cancelled")));
  const auto pending =
      dovetail({"joins", "list", "--status", "pending", "--grouping-key", "customer-7"});
  EXPECT_THAT(pending.out, AllOf(HasSubstr(first.to_string()), Not(HasSubstr(second.to_string()))));
  EXPECT_EQ(dovetail({"joins", "list", "--before", "2000-01-01T00:00:00Z"}).out, "no joins\n");
  const auto page = ask({"joins", "list", "--limit", "1"});
  EXPECT_EQ(page["joins"].size(), 1U);
  EXPECT_EQ(page["next_start_after"], first.to_string());
  const auto rest = ask({"joins", "list", "--limit", "5", "--start-after", first.to_string()});
  EXPECT_EQ(rest["joins"].size(), 1U);
  EXPECT_EQ(rest["joins"][0]["join_id"], second.to_string());
  EXPECT_TRUE(rest["next_start_after"].is_null());

  const auto shown = dovetail({"joins", "show", first.to_string()});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("expected_steps   2"), HasSubstr("attached         1"),
                               HasSubstr(message)));
  const auto json = ask({"joins", "show", first.to_string()});
  EXPECT_EQ(json["status"], "pending");
  EXPECT_EQ(json["grouping_key"], "customer-7");
  EXPECT_EQ(json["members"][0]["message_id"], message);
  EXPECT_EQ(json["members"][0]["status"], "pending");
}

TEST_P(CliJoinsContract, JoinsAreCancelledAndPurged) {
  const auto first = joins.start({.expected_steps = 1}).to_string();
  const auto second = joins.start({.expected_steps = 1}).to_string();
  EXPECT_EQ(dovetail({"joins", "cancel", first}).out, "cancelled 1 of 1\n");
  EXPECT_EQ(dovetail({"joins", "cancel", first, second}).out, "cancelled 1 of 2\n");
  EXPECT_EQ(ask({"joins", "purge", "--older-than", "3600"})["purged"], 0);
  const auto purged = dovetail({"joins", "purge", "--older-than", "0"});
  EXPECT_EQ(purged.out, "purged 2\n") << purged.err;
  EXPECT_EQ(dovetail({"joins", "list"}).out, "no joins\n");
}

TEST_P(CliJoinsContract, WhatIsWrongIsSaid) {
  const auto nobody = JoinId::generate().to_string();
  for (const Words& words : {Words{"joins", "show", nobody}, Words{"joins", "cancel", nobody}}) {
    const auto result = dovetail(words);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("there is no join " + nobody));
  }
  EXPECT_EQ(dovetail({"enqueue", "t", "--join", nobody}).code, 2);
  EXPECT_EQ(dovetail({"joins", "show", "x"}).code, 2);
  EXPECT_EQ(dovetail({"joins", "purge"}).code, 2);
  EXPECT_EQ(dovetail({"joins", "purge", "--older-than", "-1"}).code, 2);
  EXPECT_EQ(dovetail({"joins", "list", "--status", "strange"}).code, 2);
  EXPECT_EQ(dovetail({"joins", "list", "--limit", "0"}).code, 2);
}

TEST_P(CliJoinsContract, AWorkerThatRunsCommandsHandlesWaitsByItself) {
  const auto fan =
      joins.fan_out({.steps = {{.topic = "step"}, {.topic = "step"}},
                     .wait = {{.on_complete_topic = "next", .on_complete_payload = "all done"}}});
  const auto result = work_once("cat >> " + (directory.path() / "seen").string() + "; echo >> " +
                                (directory.path() / "seen").string());
  EXPECT_EQ(result.code, 0) << result.err;
  for (int i = 0; i < 100 && status()["done"] != 4; ++i) work_once("cat > /dev/null");
  EXPECT_EQ(ask({"joins", "show", fan.join.to_string()})["status"], "completed");
  EXPECT_EQ(status()["done"], 4);
}

}  // namespace
}  // namespace dovetail::testing
