// The command line, on both engines: a message's way without a line of C++.
#include <nlohmann/json.hpp>

#include "support/backend.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class CliContract : public BackendTest {
 protected:
  CommandResult dovetail(std::vector<std::string> arguments, const std::string& input = {}) {
    arguments.insert(arguments.begin(), DOVETAIL_COMMAND);
    for (const auto& each :
         {std::string{"--database"}, backend.url(), std::string{"--schema"}, backend.schema()}) {
      arguments.push_back(each);
    }
    return run_command(arguments, input);
  }
};
DOVETAIL_CONTRACT(CliContract);

TEST_P(CliContract, AMessageIsEnqueuedClaimedAndAcked) {
  EXPECT_EQ(dovetail({"migrate"}).code, 0);
  const auto enqueued = dovetail({"enqueue", "email.send", R"({"to":"a"})", "--correlation-id", "c-1"});
  ASSERT_EQ(enqueued.code, 0) << enqueued.err;
  const auto id = enqueued.out.substr(0, enqueued.out.find('\n'));

  const auto claimed = json::parse(dovetail({"claim", "--json", "--lease", "60"}).out);
  ASSERT_EQ(claimed["messages"].size(), 1U);
  const auto& message = claimed["messages"][0];
  EXPECT_EQ(message["id"], id);
  EXPECT_EQ(message["topic"], "email.send");
  EXPECT_EQ(message["payload"], R"({"to":"a"})");
  EXPECT_EQ(message["correlation_id"], "c-1");
  EXPECT_EQ(message["epoch"], 1);

  const auto claim = id + ":1";
  EXPECT_EQ(dovetail({"ack", "--owner", OwnerToken::generate().to_string(), claim}).out, "acked 0 of 1\n");
  EXPECT_EQ(dovetail({"ack", "--owner", claimed["owner"], claim}).out, "acked 1 of 1\n");
  const auto status = json::parse(dovetail({"status", "--json"}).out);
  EXPECT_EQ(status["outbox"]["done"], 1);
  EXPECT_EQ(status["outbox"]["ready"], 0);
  EXPECT_EQ(status["schema"], backend.schema());
}

TEST_P(CliContract, StatusIsATableForPeople) {
  dovetail({"migrate"});
  dovetail({"enqueue", "t"});
  const auto status = dovetail({"status"});
  EXPECT_EQ(status.code, 0);
  EXPECT_THAT(status.out, HasSubstr("QUEUE   READY  SCHEDULED  IN PROGRESS  DONE  FAILED"));
  EXPECT_THAT(status.out, HasSubstr("outbox  1      0          0            0     0"));
}

TEST_P(CliContract, APayloadComesFromStandardInputAndADueTimeIsKept) {
  dovetail({"migrate"});
  const auto id = OutboxMessageId::generate().to_string();
  const auto enqueued = dovetail({"enqueue", "t", "--payload-file", "-", "--due-at",
                                  "2150-01-31T10:30:00+01:00", "--message-id", id, "--json"},
                                 "from stdin");
  EXPECT_EQ(json::parse(enqueued.out)["message_id"], id) << enqueued.err;
  EXPECT_EQ(json::parse(dovetail({"status", "--json"}).out)["outbox"]["scheduled"], 1);
  backend.advance(std::chrono::hours{130 * 366 * 24});
  const auto claimed = backend.open().outbox().claim({.owner = OwnerToken::generate()});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_EQ(claimed[0].message.payload, "from stdin");
  EXPECT_EQ(to_string(claimed[0].message.due_at), "2150-01-31T09:30:00.000000Z");
}

TEST_P(CliContract, ADryRunPrintsTheSqlAndChangesNothing) {
  const auto dry = dovetail({"migrate", "--dry-run"});
  EXPECT_EQ(dry.code, 0);
  EXPECT_THAT(dry.out, HasSubstr("create table"));
  EXPECT_THAT(dry.err, HasSubstr("would be applied"));
  const auto status = dovetail({"status"});
  EXPECT_EQ(status.code, 1);
  EXPECT_THAT(status.err, HasSubstr("Run: dovetail migrate --schema " + backend.schema()));
  EXPECT_THAT(dovetail({"migrate"}).out, HasSubstr("applied 1 outbox"));
  EXPECT_THAT(dovetail({"migrate"}).out, HasSubstr("is up to date"));
  EXPECT_EQ(dovetail({"migrate", "--dry-run"}).out, "");
}

TEST_P(CliContract, BadArgumentsAreRefusedWithTwo) {
  dovetail({"migrate"});
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"enqueue", ""},
                                             {"enqueue", "t", "--due-at", "tomorrow"},
                                             {"enqueue", "t", "--message-id", "42"},
                                             {"enqueue", "t", "--payload-file", "/there/is/no/such/file"},
                                             {"claim", "--batch", "0"},
                                             {"claim", "--lease", "-1"},
                                             {"ack", "--owner", "x", "y"},
                                             {"ack", "--owner", OwnerToken::generate().to_string(),
                                              OwnerToken::generate().to_string() + ":x"}}) {
    EXPECT_EQ(dovetail(arguments).code, 2) << ::testing::PrintToString(arguments);
  }
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox")), 0);
}

}  // namespace
}  // namespace dovetail::testing
