// The inbox on the command line.
#include "support/cli_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class CliInboxContract : public CliTest {
 protected:
  CliInboxContract() {
    platform.inbox().enqueue(
        {.topic = "orders", .source = "shop", .message_id = "1", .payload = "secret"});
    auto& queue = platform.inbox().queue();
    const auto owner = OwnerToken::generate();
    const auto claimed = queue.claim({.owner = owner});
    EXPECT_EQ(queue.fail(owner, std::vector{claimed.at(0).claim}, "no such order"), 1U);
    platform.inbox().mark_dead("bank", "2", "forged");
    platform.inbox().mark_processed("bank", "3");
    platform.inbox().enqueue({.topic = "orders", .source = "shop", .message_id = "4"});
  }
  static Platform open(const Backend& backend) {
    auto options = backend.options();
    options.clock = nullptr;  // the clock of the command
    return Platform::open(backend.url(), options);
  }
  Platform platform = open(backend);
};
DOVETAIL_CONTRACT(CliInboxContract);

TEST_P(CliInboxContract, StatusCountsEachState) {
  const auto answer = ask({"inbox", "status"});
  EXPECT_EQ(answer["dead_letters"], 2);
  EXPECT_EQ(answer["processed"], 1);
  EXPECT_EQ(answer["queue"]["ready"], 1);
  EXPECT_EQ(answer["queue"]["failed"], 1);
  EXPECT_THAT(dovetail({"inbox", "status"}).out,
              HasSubstr("SEEN  PROCESSING  OVERDUE  PROCESSED  DEAD LETTERS"));
}

TEST_P(CliInboxContract, TheDeadAreListedWithTheirErrors) {
  const auto answer = ask({"inbox", "dead-letters"})["dead_letters"];
  ASSERT_THAT(answer, SizeIs(2));
  EXPECT_EQ(answer[0]["source"], "bank");
  EXPECT_EQ(answer[0]["last_error"], "forged");
  EXPECT_EQ(answer[1]["topic"], "orders");
  EXPECT_EQ(answer[1]["last_error"], "no such order");
  const auto table = dovetail({"inbox", "dead-letters", "--source", "shop"}).out;
  EXPECT_THAT(table, HasSubstr("no such order"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("forged")));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("secret")));
  EXPECT_EQ(ask({"inbox", "dead-letters", "--start-after-source", "bank", "--start-after-id",
                 "2"})["dead_letters"]
                .size(),
            1U);
}

TEST_P(CliInboxContract, ShowTellsAllThatIsKnown) {
  const auto answer = ask({"inbox", "show", "shop", "1"});
  EXPECT_EQ(answer["status"], "dead_letter");
  EXPECT_EQ(answer["sightings"], 1);
  EXPECT_EQ(answer["attempts"], 1);
  EXPECT_THAT(dovetail({"inbox", "show", "shop", "4"}).out, HasSubstr("queued"));
  const auto missing = dovetail({"inbox", "show", "shop", "none"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("there is no message none of the source shop"));
}

TEST_P(CliInboxContract, ReplayNeedsToBeToldWhich) {
  EXPECT_EQ(dovetail({"inbox", "replay"}).code, 2);
  EXPECT_EQ(dovetail({"inbox", "replay", "--all", "--id", "1"}).code, 2);
  EXPECT_EQ(dovetail({"inbox", "replay", "--source", "shop", "--id", "1"}).out, "replayed 1\n");
  EXPECT_EQ(ask({"inbox", "show", "shop", "1"})["status"], "queued");
  EXPECT_EQ(dovetail({"inbox", "replay", "--all", "--delay", "-1"}).code, 2);
  EXPECT_EQ(dovetail({"inbox", "replay", "--all", "--reason", ""}).code, 2);
  EXPECT_EQ(dovetail({"inbox", "replay", "--all", "--reason", "mended", "--delay", "60"}).out,
            "replayed 1\n");
  EXPECT_EQ(ask({"inbox", "show", "bank", "2"})["last_error"], "mended");
}

TEST_P(CliInboxContract, PurgeDeletesOldMessagesOrDeadLetters) {
  EXPECT_EQ(dovetail({"inbox", "purge"}).code, 2);
  EXPECT_EQ(dovetail({"inbox", "purge", "--dead-letters"}).code, 2);
  EXPECT_EQ(dovetail({"inbox", "purge", "--older-than", "60", "--all"}).code, 2);
  EXPECT_EQ(dovetail({"inbox", "purge", "--dead-letters", "--topic", "orders"}).out, "purged 1\n");
  EXPECT_EQ(dovetail({"inbox", "purge", "--dead-letters", "--all"}).out, "purged 1\n");
  EXPECT_EQ(dovetail({"inbox", "purge", "--older-than", "3600"}).out, "purged 0\n");
  EXPECT_TRUE(platform.inbox().find("bank", "3"));
  EXPECT_EQ(dovetail({"inbox", "purge", "--older-than", "0"}).out, "purged 1\n");
  EXPECT_FALSE(platform.inbox().find("bank", "3"));
  EXPECT_TRUE(platform.inbox().find("shop", "4")) << "it waits in the queue";
}

}  // namespace
}  // namespace dovetail::testing
