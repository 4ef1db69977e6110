// The command line, on both engines: the life of a message without a line of C++.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/cli_test.hpp"

namespace dovetail::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Lets one process wait for another without a clock: opening one end blocks until the other end is
/// open.
class Fifo {
 public:
  explicit Fifo(const std::filesystem::path& path) : path_(path) { ::mkfifo(path.c_str(), 0600); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Returns when a process has written.
  [[nodiscard]] std::string read() const {
    std::ifstream in{path_};
    std::string line;
    std::getline(in, line);
    return line;
  }
  /// Returns when a process reads.
  void write() const { std::ofstream{path_} << "go\n"; }

 private:
  std::string path_;
};

class CliContract : public CliTest {};
DOVETAIL_CONTRACT(CliContract);

class CliMigrateContract : public CliTest {
 protected:
  CliMigrateContract() : CliTest(Tables::none) {}
};
DOVETAIL_CONTRACT(CliMigrateContract);

TEST_P(CliContract, AMessageIsEnqueuedClaimedAndAcked) {
  EXPECT_EQ(dovetail({"migrate"}).code, 0);
  const auto enqueued =
      dovetail({"enqueue", "email.send", R"({"to":"a"})", "--correlation-id", "c-1"});
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
  const auto foreign = dovetail({"ack", "--owner", OwnerToken::generate().to_string(), claim});
  EXPECT_EQ(foreign.code, 1);
  EXPECT_EQ(foreign.out, "acked 0 of 1\n");
  EXPECT_THAT(foreign.err, HasSubstr("nothing was acked"));
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
  EXPECT_THAT(status.out,
              HasSubstr("QUEUE   READY  SCHEDULED  IN PROGRESS  DONE  FAILED  PAUSED  OLDEST DUE"));
  EXPECT_THAT(status.out,
              HasSubstr("outbox  1      0          0            0     0       0       "));
  EXPECT_THAT(status.out, Not(HasSubstr("PAUSED TOPIC")));
}

TEST_P(CliContract, StatusShowsEveryQueueJobsAndJoins) {
  dovetail({"migrate"});
  {
    auto platform = backend.open();
    platform.inbox().enqueue({.topic = "t", .source = "s", .message_id = "m"});
    EXPECT_TRUE(platform.inbox().queue().pause("p"));
    platform.joins().start({.expected_steps = 2});
  }
  dovetail({"timers", "schedule", "t", "--due-at", "2150-01-31T09:30:00Z"});
  dovetail({"jobs", "create", "a", "t", "@daily"});
  dovetail({"jobs", "create", "b", "t", "@daily", "--disabled"});
  const auto answer = ask({"status"});
  EXPECT_EQ(answer["inbox"]["ready"], 1);
  EXPECT_EQ(answer["inbox"]["paused_topics"][0]["topic"], "p");
  EXPECT_EQ(answer["timers"]["scheduled"], 1);
  EXPECT_EQ(answer["jobs"], (json{{"total", 2}, {"enabled", 1}}));
  EXPECT_EQ(answer["joins"]["pending"], 1);
  EXPECT_THAT(dovetail({"status"}).out,
              AllOf(HasSubstr("\ninbox   1      0 "), HasSubstr("\ntimers  0      1 "),
                    HasSubstr("JOBS  ENABLED  PENDING JOINS\n2     1        1\n")));
}

TEST_P(CliContract, APayloadComesFromStandardInputAndADueTimeIsKept) {
  dovetail({"migrate"});
  const auto id = MessageId::generate().to_string();
  const auto enqueued = dovetail({"enqueue", "t", "--payload-file", "-", "--due-at",
                                  "2150-01-31T10:30:00+01:00", "--message-id", id, "--json"},
                                 "from stdin");
  EXPECT_EQ(json::parse(enqueued.out)["message_id"], id) << enqueued.err;
  EXPECT_EQ(json::parse(dovetail({"status", "--json"}).out)["outbox"]["scheduled"], 1);
  backend.advance(std::chrono::hours{130 * 366 * 24});
  const auto claimed = backend.open().outbox().claim({.owner = OwnerToken::generate()});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_EQ(claimed[0].message.payload, "from stdin");
  EXPECT_EQ(to_string(claimed[0].message.due_at.value()), "2150-01-31T09:30:00.000000Z");
}

TEST_P(CliMigrateContract, ADryRunPrintsTheSqlAndChangesNothing) {
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

TEST_P(CliMigrateContract, MigrateCheckListsPendingMigrationsAndChangesNothing) {
  const auto before = dovetail({"migrate", "--check"});
  EXPECT_EQ(before.code, 1);
  EXPECT_THAT(before.out, AllOf(StartsWith("pending 1 outbox\n"), HasSubstr("pending 6 jobs\n")));
  EXPECT_THAT(before.err, HasSubstr("Run: dovetail migrate --schema " + backend.schema()));
  EXPECT_EQ(dovetail({"migrate", "--check"}).out, before.out) << "nothing was applied";
  EXPECT_THAT(dovetail({"migrate"}).out, HasSubstr("applied 1 outbox"));
  const auto after = dovetail({"migrate", "--check"});
  EXPECT_EQ(after.code, 0);
  EXPECT_EQ(after.out, "schema " + backend.schema() + " is up to date\n");
  EXPECT_EQ(dovetail({"migrate", "--check", "--dry-run"}).code, 2);
}

// --- enqueue

TEST_P(CliContract, HeadersPriorityAndExpiryTravelWithTheMessage) {
  dovetail({"migrate"});
  const auto enqueued =
      dovetail({"enqueue", "--header", "traceparent=00-a=b", "--header", "tenant=", "t", "x",
                "--priority", "-3", "--expires-at", "2150-01-31T09:30:00Z"});
  ASSERT_EQ(enqueued.code, 0) << enqueued.err;
  const auto claimed = ask({"claim"});
  ASSERT_EQ(claimed["messages"].size(), 1U);
  const auto& message = claimed["messages"][0];
  EXPECT_EQ(message["payload"], "x");
  EXPECT_EQ(message["headers"], (json{{"traceparent", "00-a=b"}, {"tenant", ""}}));
  EXPECT_EQ(message["priority"], -3);
  EXPECT_EQ(message["expires_at"], "2150-01-31T09:30:00.000000Z");
  EXPECT_TRUE(message["due_at"].is_null());
}

TEST_P(CliContract, APayloadIsTakenAsItIsWritten) {
  dovetail({"migrate"});
  for (const std::string payload : {R"(["a","b"])", R"("a")", "", "a b", "{}", "ü\n"}) {
    const auto enqueued = dovetail({"enqueue", "t", payload});
    EXPECT_EQ(show(enqueued.out.substr(0, enqueued.out.find('\n')))["payload"], payload);
  }
}

TEST_P(CliContract, WhatIsThereAlreadyIsNotStoredAgain) {
  dovetail({"migrate"});
  const auto first = ask({"enqueue", "t", "--unique-key", "k"});
  EXPECT_EQ(first["stored"], true);
  const auto second = dovetail({"enqueue", "t", "--unique-key", "k"});
  EXPECT_EQ(second.code, 0);
  EXPECT_EQ(second.out, first["message_id"].get<std::string>() + "\n");
  EXPECT_THAT(second.err, HasSubstr("already there"));
  EXPECT_EQ(ask({"enqueue", "t", "--unique-key", "k"}),
            (json{{"message_id", first["message_id"]}, {"stored", false}}));
  const auto repeated = ask({"enqueue", "t", "--message-id", first["message_id"]});
  EXPECT_EQ(repeated["stored"], false);
  EXPECT_EQ(status()["ready"], 1);
}

// --- settling

TEST_P(CliContract, AnAbandonedMessageIsChargedAnAttemptAndComesBack) {
  dovetail({"migrate"});
  const auto id = enqueue("t");
  const auto [owner, claim] = claim_one();
  EXPECT_EQ(dovetail({"abandon", "--owner", OwnerToken::generate().to_string(), claim}).out,
            "abandoned 0 of 1\n");
  EXPECT_EQ(
      dovetail({"abandon", "--owner", owner, "--error", "no luck", "--delay", "0", claim}).out,
      "abandoned 1 of 1\n");
  const auto stored = show(id);
  EXPECT_EQ(stored["status"], "ready");
  EXPECT_EQ(stored["attempts"], 1);
  EXPECT_EQ(stored["last_error"], "no luck");
  const auto again = claim_one();
  EXPECT_EQ(again.claim, id + ":2");
  EXPECT_EQ(ask({"abandon", "--owner", again.owner, again.claim}),
            (json{{"abandoned", 1}, {"asked", 1}}));
  EXPECT_EQ(status()["scheduled"], 1) << "without --delay it waits for its backoff";
}

TEST_P(CliContract, ASettlementThatChangesNothingExitsWithOneAndSaysWhy) {
  dovetail({"migrate"});
  const auto id = enqueue("t");
  const auto [owner, claim] = claim_one();
  const auto nobody = OwnerToken::generate().to_string();
  for (const auto& words :
       std::vector<Words>{{"ack"}, {"abandon"}, {"fail", "--error", "x"}, {"snooze"}, {"renew"}}) {
    Words arguments = words;
    arguments.insert(arguments.end(), {"--owner", nobody, claim});
    const auto result = dovetail(arguments);
    EXPECT_EQ(result.code, 1) << words[0];
    EXPECT_THAT(result.out, HasSubstr(" 0 of 1\n"));
    EXPECT_THAT(result.err, AllOf(HasSubstr("nothing was "), HasSubstr("another owner")));
    arguments.emplace_back("--json");
    const auto json_result = dovetail(arguments);
    EXPECT_EQ(json_result.code, 1) << words[0];
    EXPECT_EQ(json::parse(json_result.out)["asked"], 1);
  }
  const auto some = dovetail({"ack", "--owner", owner, claim, id + ":7"});
  EXPECT_EQ(some.code, 0);
  EXPECT_EQ(some.out, "acked 1 of 2\n");
  EXPECT_THAT(some.err, HasSubstr("not everything was acked"));
  const auto replayed = dovetail({"dead-letters", "replay", id});
  EXPECT_EQ(replayed.code, 1);
  EXPECT_THAT(replayed.err, HasSubstr("there is no dead letter with this id"));
  EXPECT_EQ(dovetail({"timers", "cancel", id}).code, 1);
}

TEST_P(CliContract, AFailedMessageIsADeadLetterWithItsError) {
  dovetail({"migrate"});
  const auto stored = show(dead_letter("t", "of no use"));
  EXPECT_EQ(stored["status"], "failed");
  EXPECT_EQ(stored["last_error"], "of no use");
  EXPECT_EQ(status()["failed"], 1);
  ASSERT_EQ(stored["failures"].size(), 1U);
  EXPECT_EQ(stored["failures"][0]["error"], "of no use");
  EXPECT_THAT(dovetail({"dead-letters", "show", stored["message_id"]}).out,
              AllOf(HasSubstr("ATTEMPT"), HasSubstr("failed  of no use")));
}

TEST_P(CliContract, ASnoozedMessageComesBackFreeOfCharge) {
  dovetail({"migrate"});
  const auto id = enqueue("t");
  const auto first = claim_one();
  EXPECT_EQ(dovetail({"snooze", "--owner", first.owner, first.claim}).out, "snoozed 1 of 1\n");
  EXPECT_EQ(status()["ready"], 1);
  const auto second = claim_one();
  EXPECT_EQ(ask({"snooze", "--owner", second.owner, "--delay", "3600", second.claim}),
            (json{{"snoozed", 1}, {"asked", 1}}));
  EXPECT_EQ(status()["scheduled"], 1);
  EXPECT_EQ(show(id)["attempts"], 0);
}

TEST_P(CliContract, ARenewedLeaseIsNotReapedAndOneThatRanOutIs) {
  dovetail({"migrate"});
  const auto id = enqueue("t");
  const auto [owner, claim] = claim_one();
  EXPECT_EQ(dovetail({"renew", "--owner", OwnerToken::generate().to_string(), claim}).out,
            "renewed 0 of 1\n");
  EXPECT_EQ(dovetail({"renew", "--owner", owner, "--lease", "3600", claim}).out,
            "renewed 1 of 1\n");
  EXPECT_EQ(dovetail({"reap"}).out, "reaped 0\n");
  EXPECT_EQ(ask({"renew", "--owner", owner, "--lease", "0.001", claim}),
            (json{{"renewed", 1}, {"asked", 1}}));
  EXPECT_EQ(ask({"reap"}), (json{{"reaped", 1}}));
  EXPECT_EQ(show(id)["attempts"], 1);
  EXPECT_EQ(dovetail({"ack", "--owner", owner, claim}).out, "acked 0 of 1\n");
}

// --- topics

TEST_P(CliContract, APausedTopicIsShownAndNotClaimedUntilItIsResumed) {
  dovetail({"migrate"});
  EXPECT_EQ(dovetail({"pause", "email.send"}).out, "paused email.send\n");
  EXPECT_EQ(dovetail({"pause", "email.send"}).out, "email.send was paused already\n");
  enqueue("email.send");
  EXPECT_EQ(ask({"claim"})["messages"].size(), 0U);
  const auto paused = status();
  EXPECT_EQ(paused["paused"], 1);
  ASSERT_EQ(paused["paused_topics"].size(), 1U);
  EXPECT_EQ(paused["paused_topics"][0]["topic"], "email.send");
  EXPECT_THAT(dovetail({"status"}).out,
              AllOf(HasSubstr("PAUSED TOPIC"), HasSubstr("\nemail.send    2")));

  EXPECT_EQ(
      ask({"resume", "email.send"}),
      (json{{"queue", "outbox"}, {"topic", "email.send"}, {"paused", false}, {"changed", true}}));
  EXPECT_EQ(dovetail({"resume", "email.send"}).out, "email.send was not paused\n");
  claim_one();
  EXPECT_EQ(status()["paused_topics"].size(), 0U);
}

// --- dead letters

TEST_P(CliContract, DeadLettersAreListedByTopicTimeAndPage) {
  dovetail({"migrate"});
  EXPECT_EQ(dovetail({"dead-letters", "list"}).out, "no dead letters\n");
  const auto a = dead_letter("a", "two\nlines");
  const auto b = dead_letter("b", std::string(100, 'x'));
  const auto ids = [&](const Words& more) {
    Words arguments{"dead-letters", "list"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto answer = ask(arguments);
    Words found;
    for (const auto& each : answer["dead_letters"]) found.push_back(each["message_id"]);
    return found;
  };
  EXPECT_EQ(ids({}), (Words{a, b}));
  EXPECT_EQ(ids({"--topic", "b"}), Words{b});
  EXPECT_EQ(ids({"--start-after", a}), Words{b});
  EXPECT_EQ(ids({"--limit", "1"}), Words{a});
  const std::string failed_at = show(b)["processed_at"];
  EXPECT_EQ(ids({"--after", failed_at}), Words{b});
  EXPECT_EQ(ids({"--before", failed_at}), Words{a});
  EXPECT_EQ(ask({"dead-letters", "list", "--limit", "1"})["next_start_after"], a);
  EXPECT_TRUE(ask({"dead-letters", "list"})["next_start_after"].is_null());
  EXPECT_FALSE(ask({"dead-letters", "list"})["dead_letters"][0].contains("payload"));

  const auto table = dovetail({"dead-letters", "list", "--limit", "2"});
  EXPECT_THAT(table.out, StartsWith("MESSAGE  "));
  EXPECT_THAT(table.out, HasSubstr("two lines\n"));
  EXPECT_THAT(table.out, HasSubstr("xxx…\n"));
  EXPECT_THAT(table.err, HasSubstr("--start-after " + b));
}

TEST_P(CliContract, DeadLettersAreListedNewestFirst) {
  dovetail({"migrate"});
  const auto a = dead_letter("a");
  const auto b = dead_letter("b");
  const auto page = ask({"dead-letters", "list", "--newest", "--limit", "1"});
  EXPECT_EQ(page["dead_letters"][0]["message_id"], b);
  EXPECT_EQ(page["next_start_after"], b);
  const auto next = ask({"dead-letters", "list", "--newest", "--start-after", b});
  ASSERT_EQ(next["dead_letters"].size(), 1U);
  EXPECT_EQ(next["dead_letters"][0]["message_id"], a);
}

TEST_P(CliContract, DeadLettersAreSummedUpByTopicAndError) {
  dovetail({"migrate"});
  EXPECT_EQ(dovetail({"dead-letters", "summary"}).out, "no dead letters\n");
  dead_letter("mail", "bounced");
  dead_letter("sms", "no signal");
  dead_letter("mail", "bounced");
  const auto answer = ask({"dead-letters", "summary"});
  ASSERT_EQ(answer["groups"].size(), 2U);
  EXPECT_EQ(answer["groups"][0]["topic"], "mail");
  EXPECT_EQ(answer["groups"][0]["error"], "bounced");
  EXPECT_EQ(answer["groups"][0]["count"], 2);
  EXPECT_LT(answer["groups"][0]["oldest"], answer["groups"][0]["newest"]);
  EXPECT_EQ(answer["letters_cut"], false);
  EXPECT_EQ(ask({"dead-letters", "summary", "--topic", "sms"})["groups"].size(), 1U);
  const auto table = dovetail({"dead-letters", "summary", "--read", "2", "--limit", "1"});
  EXPECT_THAT(table.out,
              AllOf(StartsWith("COUNT  TOPIC  ERROR"), HasSubstr("\n1      mail   bounced")));
  EXPECT_THAT(table.err, AllOf(HasSubstr("only the newest 2 dead letters were counted"),
                               HasSubstr("only the largest groups are shown")));
}

TEST_P(CliContract, ADryRunOfReplayAndPurgeShowsWhichAndChangesNothing) {
  dovetail({"migrate"});
  const auto a = dead_letter("a");
  const auto b = dead_letter("b");
  const auto ready = enqueue("c");
  for (const std::string verb : {"replay", "purge"}) {
    const auto all = dovetail({"dead-letters", verb, "--all", "--dry-run"});
    EXPECT_EQ(all.code, 0) << all.err;
    EXPECT_THAT(all.out, AllOf(HasSubstr(a), HasSubstr(b), HasSubstr("would " + verb + " 2\n")));
    EXPECT_EQ(ask({"dead-letters", verb, "--topic", "b", "--dry-run"}),
              (json{{"would_" + verb, 1}, {"message_ids", {b}}}));
    EXPECT_EQ(ask({"dead-letters", verb, a, a, ready, "--dry-run"}),
              (json{{"would_" + verb, 1}, {"message_ids", {a}}}));
    EXPECT_EQ(dovetail({"dead-letters", verb, "--topic", "x", "--dry-run"}).out,
              "would " + verb + " 0\n");
    EXPECT_EQ(dovetail({"dead-letters", verb, "--dry-run"}).code, 2);
  }
  EXPECT_EQ(status()["failed"], 2);
}

TEST_P(CliContract, AMessageIsShownInAnyStateWithItsPayload) {
  dovetail({"migrate"});
  const auto id = ask({"enqueue", "t", "the payload", "--header", "tenant=7", "--unique-key",
                       "k"})["message_id"]
                      .get<std::string>();
  const auto ready = show(id);
  EXPECT_EQ(ready["status"], "ready");
  EXPECT_EQ(ready["payload"], "the payload");
  EXPECT_EQ(ready["unique_key"], "k");
  EXPECT_EQ(ready["headers"], (json{{"tenant", "7"}}));
  const auto [owner, claim] = claim_one();
  EXPECT_EQ(show(id)["status"], "in_progress");
  dovetail({"ack", "--owner", owner, claim});
  EXPECT_EQ(show(id)["status"], "done");
  const auto table = dovetail({"dead-letters", "show", id}).out;
  EXPECT_THAT(table, AllOf(HasSubstr("status           done\n"), HasSubstr("header tenant    7\n"),
                           HasSubstr("\n\nthe payload\n")));

  const auto nobody = MessageId::generate().to_string();
  const auto missing = dovetail({"dead-letters", "show", nobody});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("there is no message " + nobody));
}

TEST_P(CliContract, DeadLettersAreReplayedByIdByFilterOrAll) {
  dovetail({"migrate"});
  const auto a = dead_letter("a");
  dead_letter("b");
  dead_letter("c");
  EXPECT_EQ(dovetail({"dead-letters", "replay", a, MessageId::generate().to_string()}).out,
            "replayed 1 of 2\n");
  const auto replayed = show(a);
  EXPECT_EQ(replayed["status"], "ready");
  EXPECT_EQ(replayed["attempts"], 0);
  EXPECT_EQ(replayed["last_error"], "broken");
  EXPECT_EQ(ask({"dead-letters", "replay", "--topic", "b"}), (json{{"replayed", 1}}));
  EXPECT_EQ(dovetail({"dead-letters", "replay", "--before", "2020-01-01T00:00:00Z"}).out,
            "replayed 0\n");
  EXPECT_EQ(dovetail({"dead-letters", "replay", "--all"}).out, "replayed 1\n");
  EXPECT_EQ(status()["ready"], 3);
}

TEST_P(CliContract, DeadLettersArePurgedByIdByFilterOrAll) {
  dovetail({"migrate"});
  const auto a = dead_letter("a");
  dead_letter("b");
  dead_letter("c");
  dead_letter("c");
  EXPECT_EQ(ask({"dead-letters", "purge", a}), (json{{"purged", 1}, {"asked", 1}}));
  EXPECT_EQ(dovetail({"dead-letters", "purge", "--topic", "b"}).out, "purged 1\n");
  EXPECT_EQ(dovetail({"dead-letters", "purge", "--after", "2150-01-01T00:00:00Z"}).out,
            "purged 0\n");
  EXPECT_EQ(dovetail({"dead-letters", "purge", "--all"}).out, "purged 2\n");
  EXPECT_EQ(dovetail({"dead-letters", "show", a}).code, 1);
}

TEST_P(CliContract, ReplayAndPurgeWantExactlyOneWayToSayWhich) {
  dovetail({"migrate"});
  const auto id = dead_letter("a");
  for (const std::string verb : {"replay", "purge"}) {
    const auto none = dovetail({"dead-letters", verb});
    EXPECT_EQ(none.code, 2);
    EXPECT_THAT(none.err, HasSubstr("--all"));
    for (const auto& more : std::vector<Words>{{id, "--topic", "a"},
                                               {id, "--all"},
                                               {"--all", "--topic", "a"},
                                               {"--topic", "a", "--after", ""}}) {
      Words arguments{"dead-letters", verb};
      arguments.insert(arguments.end(), more.begin(), more.end());
      EXPECT_EQ(dovetail(arguments).code, 2) << ::testing::PrintToString(arguments);
    }
  }
  EXPECT_EQ(status()["failed"], 1);
}

// --- work

TEST_P(CliContract, ACommandThatSucceedsHasDoneItsMessage) {
  dovetail({"migrate"});
  const auto id = ask({"enqueue", "email.send", "the payload", "--correlation-id", "c-1",
                       "--header", "trace-id=a=b", "--header", "größe=2"})["message_id"]
                      .get<std::string>();
  const auto worked = work_once(
      "cat; echo; echo \"$DOVETAIL_TOPIC $DOVETAIL_MESSAGE_ID $DOVETAIL_CORRELATION_ID "
      "$DOVETAIL_ATTEMPT\"; "
      "echo \"$DOVETAIL_HEADER_TRACE_ID $DOVETAIL_HEADER_GR__E\"; echo aside >&2",
      {"--quiet"});
  EXPECT_EQ(worked.code, 0);
  EXPECT_EQ(worked.out, "the payload\nemail.send " + id + " c-1 1\na=b 2\n");
  EXPECT_EQ(worked.err, "aside\n");
  EXPECT_EQ(show(id)["status"], "done");
}

TEST_P(CliContract, ACommandSeesNoVariablesOfAnotherMessage) {
  dovetail({"migrate"});
  enqueue("t");
  auto arguments =
      call({"work", "--once", "--exec", "echo \"[$DOVETAIL_HEADER_OLD$DOVETAIL_CORRELATION_ID]\""});
  for (const auto* each : {"DOVETAIL_CORRELATION_ID=outer", "DOVETAIL_HEADER_OLD=outer", "env"}) {
    arguments.insert(arguments.begin(), each);
  }
  EXPECT_EQ(run_command(arguments).out, "[]\n");
}

TEST_P(CliContract, ExitCode75SnoozesTheMessage) {
  dovetail({"migrate"});
  const auto id = enqueue("t");
  EXPECT_EQ(work_once("exit 75", {"--snooze", "3600"}).code, 0);
  const auto stored = show(id);
  EXPECT_EQ(stored["status"], "ready");
  EXPECT_EQ(stored["attempts"], 0);
  EXPECT_EQ(status()["scheduled"], 1);
}

TEST_P(CliContract, ExitCode65IsAPermanentFailure) {
  dovetail({"migrate"});
  const auto id = enqueue("t");
  EXPECT_EQ(work_once("echo malformed >&2; exit 65").code, 0);
  const auto stored = show(id);
  EXPECT_EQ(stored["status"], "failed");
  EXPECT_EQ(stored["attempts"], 1);
  EXPECT_EQ(stored["last_error"], "exit code 65: malformed");
}

TEST_P(CliContract, AWorkerSaysWhatItDoesWhenItStarts) {
  dovetail({"migrate"});
  const auto all = work_once("true", {"--threads", "2", "--batch", "7"});
  EXPECT_THAT(all.err,
              AllOf(StartsWith("dovetail: working on "), HasSubstr("schema " + backend.schema()),
                    HasSubstr("all topics, 2 threads, batches of 7, command: true\n")));
  EXPECT_THAT(work_once("true", {"--topic", "a", "--topic", "b"}).err, HasSubstr("topics a, b"));
  EXPECT_EQ(work_once("true", {"--quiet"}).err, "");
}

TEST_P(CliContract, AnyOtherExitCodeAbandonsTheMessageWithItsLastWords) {
  dovetail({"migrate"});
  const auto id = enqueue("t", "a secret");
  const auto worked = work_once("echo no luck >&2; exit 3", {"--log-level", "debug"});
  EXPECT_EQ(worked.code, 0);
  EXPECT_THAT(worked.err, AllOf(HasSubstr("no luck\n"), Not(HasSubstr("a secret"))));
  const auto stored = show(id);
  EXPECT_EQ(stored["status"], "ready");
  EXPECT_EQ(stored["attempts"], 1);
  EXPECT_EQ(stored["last_error"], "exit code 3: no luck");
}

TEST_P(CliContract, ACommandKilledByASignalAbandonsItsMessage) {
  dovetail({"migrate"});
  const auto id = enqueue("t");
  EXPECT_EQ(work_once("kill -9 $$").code, 0);
  EXPECT_EQ(show(id)["last_error"], "killed by signal 9");
  EXPECT_EQ(show(id)["attempts"], 1);
}

TEST_P(CliContract, TheLastAttemptMakesADeadLetter) {
  dovetail({"migrate"});
  const auto id = enqueue("t");
  EXPECT_EQ(
      work_once("yes 0123456789abcde | head -c 4096 >&2; exit 1", {"--max-attempts", "1"}).code, 0);
  const auto stored = show(id);
  EXPECT_EQ(stored["status"], "failed");
  EXPECT_EQ(stored["last_error"].get<std::string>().size(),
            std::string{"exit code 1: "}.size() + 1023);
}

TEST_P(CliContract, ALargePayloadNeitherBlocksNorKillsTheWorker) {
  dovetail({"migrate"});
  const std::string payload(1 << 20, 'x');
  const auto first = enqueue("t", payload);
  EXPECT_EQ(work_once("exit 0").code, 0);
  EXPECT_EQ(show(first)["status"], "done") << "judged by its exit code, though it read nothing";
  const auto second = enqueue("t", payload);
  EXPECT_EQ(work_once("exec <&-; exit 3", {"--max-attempts", "1"}).code, 0);
  EXPECT_EQ(show(second)["last_error"], "exit code 3");
  enqueue("t", payload);
  const auto echoed = work_once("cat >&2", {"--quiet"});
  EXPECT_EQ(echoed.code, 0);
  EXPECT_EQ(echoed.err, payload);
}

TEST_P(CliContract, ACommandsLeftoversInTheBackgroundAreNotWaitedFor) {
  dovetail({"migrate"});
  const Fifo fifo(directory.path() / "fifo");
  const auto id = enqueue("t");
  EXPECT_EQ(work_once("read line < " + fifo.path() + " & exit 0").code, 0);
  EXPECT_EQ(show(id)["status"], "done");
  fifo.write();
}

TEST_P(CliContract, AClaimMayNameItsTopics) {
  dovetail({"migrate"});
  enqueue("a");
  enqueue("b");
  enqueue("c");
  const auto claimed = dovetail({"claim", "--topic", "a", "--topic", "c"});
  EXPECT_EQ(claimed.code, 0) << claimed.err;
  EXPECT_THAT(claimed.out, AllOf(HasSubstr(" a "), HasSubstr(" c "), Not(HasSubstr(" b "))));
}

TEST_P(CliContract, AWorkerForATopicLeavesOthersUnharmed) {
  dovetail({"migrate"});
  const auto a = enqueue("a");
  const auto b = enqueue("b");
  const auto c = enqueue("c");
  const auto worked =
      work_once("echo $DOVETAIL_TOPIC", {"--topic", "a", "--threads", "1", "--topic", "c"});
  EXPECT_EQ(worked.code, 0) << worked.err;
  EXPECT_THAT(worked.out, AllOf(HasSubstr("a\n"), HasSubstr("c\n"), Not(HasSubstr("b"))));
  EXPECT_EQ(show(a)["status"], "done");
  EXPECT_EQ(show(c)["status"], "done");
  EXPECT_EQ(show(b)["status"], "ready");
  EXPECT_EQ(show(b)["attempts"], 0);
  EXPECT_THAT(dovetail({"claim"}).out, HasSubstr(b + ":1 ")) << "never claimed before";
}

TEST_P(CliContract, ACommandThatTakesTooLongIsToldToStop) {
  dovetail({"migrate"});
  const auto id = enqueue("t");
  EXPECT_EQ(work_once("sleep 600", {"--timeout", "0.1"}).code, 0);
  EXPECT_EQ(show(id)["last_error"], "told to stop: killed by signal 15");
  EXPECT_EQ(show(id)["attempts"], 1);
}

TEST_P(CliContract, AfterASignalRunningCommandsFinish) {
  dovetail({"migrate"});
  const Fifo begun(directory.path() / "begun");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto proceed = directory.path() / ("proceed-" + std::to_string(signal));
    const auto id = enqueue("t");
    auto worker = work_in_background("echo begun > " + begun.path() + "; while [ ! -e " +
                                     proceed.string() + " ]; do sleep 0.02; done");
    EXPECT_EQ(begun.read(), "begun");
    worker.signal(signal);
    std::ofstream{proceed} << "go";
    EXPECT_EQ(worker.wait(), 0);
    EXPECT_EQ(show(id)["status"], "done") << "signal " << signal;
  }
}

TEST_P(CliContract, CommandsThatOutliveTheDrainAreToldToStopAndCostNoAttempt) {
  dovetail({"migrate"});
  const Fifo begun(directory.path() / "begun");
  const auto id = enqueue("t");
  auto worker =
      work_in_background("echo begun > " + begun.path() + "; exec sleep 600", {"--drain", "0.1"});
  EXPECT_EQ(begun.read(), "begun");
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait(), 1);
  const auto stored = show(id);
  EXPECT_EQ(stored["status"], "ready");
  EXPECT_EQ(stored["attempts"], 0);
}

TEST_P(CliContract, ACommandMayFinishItsWorkWhenItIsToldToStop) {
  dovetail({"migrate"});
  const Fifo begun(directory.path() / "begun");
  const auto id = enqueue("t");
  auto worker = work_in_background(
      "trap 'exit 0' TERM; echo begun > " + begun.path() + "; while :; do sleep 0.05; done",
      {"--drain", "0.1"});
  EXPECT_EQ(begun.read(), "begun");
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait(), 1);
  EXPECT_EQ(show(id)["status"], "done");
}

TEST_P(CliContract, CommandsThatIgnoreTheEndOfTheDrainAreKilled) {
  dovetail({"migrate"});
  const Fifo begun(directory.path() / "begun");
  const auto id = enqueue("t");
  auto worker = work_in_background("trap '' TERM; echo begun > " + begun.path() + "; sleep 600",
                                   {"--drain", "0.1"});
  EXPECT_EQ(begun.read(), "begun");
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait(), 1);
  EXPECT_NE(show(id)["status"], "done");
}

TEST_P(CliContract, ATimeoutHoldsAlsoWhileTheWorkerDrains) {
  dovetail({"migrate"});
  const Fifo begun(directory.path() / "begun");
  enqueue("t");
  auto worker = work_in_background("echo begun > " + begun.path() + "; exec sleep 600",
                                   {"--drain", "600", "--timeout", "0.5"});
  EXPECT_EQ(begun.read(), "begun");
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait(), 0);
}

TEST_P(CliContract, ASecondSignalEndsTheWorkerAtOnce) {
  dovetail({"migrate"});
  const Fifo begun(directory.path() / "begun");
  enqueue("t");
  auto worker = work_in_background("trap '' TERM; echo begun > " + begun.path() + "; sleep 600",
                                   {"--drain", "600"});
  EXPECT_EQ(begun.read(), "begun");
  worker.signal(SIGTERM);
  worker.signal(SIGINT);
  EXPECT_EQ(worker.wait(), 1);
}

// --- bench

TEST_P(CliContract, BenchMeasuresInTablesOfItsOwnAndRemovesThem) {
  const auto schema = backend.schema() + "_b";
  const auto bench = [&](Words arguments) {
    Words words{command_path, "bench"};
    std::ranges::move(arguments, std::back_inserter(words));
    for (const auto* each :
         {"--seconds", "0.2", "--messages", "300", "--connections", "2", "--database"}) {
      words.emplace_back(each);
    }
    words.push_back(backend.url());
    words.insert(words.end(), {"--schema", schema});
    return run_command(words);
  };
  const auto answer = bench(
      {"enqueue", "bulk", "drain", "latency", "joins", "fanout", "transactions", "idle", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const auto figures = json::parse(answer.out);
  ASSERT_EQ(figures.size(), 12U);
  EXPECT_GT(figures[0]["messages"], 0);
  EXPECT_EQ(figures[1]["messages"], 300);
  EXPECT_EQ(figures[2]["messages"], 300);
  EXPECT_GT(figures[2]["per_second"], 0);
  EXPECT_EQ(figures[3]["samples"].size(), 4U);
  EXPECT_LE(figures[3]["p50_ms"], figures[3]["p99_ms"]);
  EXPECT_EQ(figures[4]["messages"], 300);
  EXPECT_EQ(figures[5]["samples"].size(), 2U);
  EXPECT_EQ(figures[6]["enqueued"], 300);
  EXPECT_EQ(figures[7]["enqueued"], 0);
  EXPECT_EQ(figures[8]["enqueued"], 300);
  EXPECT_GT(figures[10]["ratio"], 0);

  // With --keep, a later call may drain the messages. Otherwise a schema in use is not touched.
  EXPECT_EQ(bench({"bulk", "--keep"}).code, 0);
  const auto refused = bench({"drain"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the schema " + schema + " is in use"));
  const auto drained = bench({"drain", "--preloaded", "--no-history", "--batch", "7"});
  EXPECT_EQ(drained.code, 0) << drained.err;
  EXPECT_THAT(drained.out, AllOf(HasSubstr("MEASURE"), HasSubstr("batches of 7, no history"),
                                 HasSubstr("messages/s")));

  const auto foreign = bench({"foreign", "--foreign", "100", "--json"});
  ASSERT_EQ(foreign.code, 0) << foreign.err;
  const auto compared = json::parse(foreign.out);
  ASSERT_EQ(compared.size(), 2U);
  EXPECT_EQ(compared[0]["foreign"], 100);
  EXPECT_GT(compared[0]["ratio"], 0);
  EXPECT_GT(compared[1]["p99_ratio"], 0);

  // A schema of another program is neither filled nor dropped.
  backend.sql(backend.is_postgres() ? "create schema " + schema
                                    : "create table " + schema + "_mine (a integer)");
  EXPECT_EQ(bench({"bulk"}).code, 2);
  EXPECT_EQ(bench({"drain", "--preloaded"}).code, 2);
  backend.sql(backend.is_postgres() ? "drop schema " + schema : "drop table " + schema + "_mine");

  if (backend.is_postgres()) {
    EXPECT_EQ(bench({"snapshot"}).code, 0);
    const auto other = backend.url().substr(0, backend.url().rfind('/')) + "/postgres";
    const auto turns = bench({"snapshot", "--beside", other, "--json"});
    ASSERT_EQ(turns.code, 0) << turns.err;
    EXPECT_GT(json::parse(turns.out)[0]["clean_per_second"], 0);
    EXPECT_EQ(run_command({command_path, "status", "--database", other, "--schema", schema}).code,
              1);
    EXPECT_EQ(bench({"snapshot", "--beside", backend.url()}).code, 2)
        << "where there is an old snapshot";
    EXPECT_EQ(bench({"snapshot", "--beside", "sqlite:x"}).code, 2);
  } else {
    EXPECT_EQ(bench({"snapshot"}).code, 2);
  }
  EXPECT_EQ(bench({"nonsense"}).code, 2);
  // The benchmark has removed its schema.
  EXPECT_EQ(
      run_command({command_path, "status", "--database", backend.url(), "--schema", schema}).code,
      1);
}

TEST_P(CliContract, BadArgumentsAreRefusedWithTwo) {
  dovetail({"migrate"});
  const auto owner = OwnerToken::generate().to_string();
  const auto claim = MessageId::generate().to_string() + ":1";
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"enqueue", ""},
           {"enqueue", "t", "--due-at", "tomorrow"},
           {"enqueue", "t", "--message-id", "42"},
           {"enqueue", "t", "--payload-file", "/there/is/no/such/file"},
           {"claim", "--batch", "0"},
           {"claim", "--lease", "-1"},
           {"ack", "--owner", "x", "y"},
           {"ack", "--owner", OwnerToken::generate().to_string(),
            OwnerToken::generate().to_string() + ":x"},
           {"enqueue", "t", "--header", "novalue"},
           {"enqueue", "t", "--header", "=x"},
           {"enqueue", "t", "--header", "a=1", "--header", "a=2"},
           {"enqueue", "t", "--priority", "6"},
           {"enqueue", "t", "--expires-at", ""},
           {"abandon", "--owner", owner, "--delay", "-1", claim},
           {"fail", "--owner", owner, claim},
           {"fail", "--owner", owner, "--error", "", claim},
           {"snooze", "--owner", owner, "--delay", "1e99", claim},
           {"renew", "--owner", owner, "--lease", "0", claim},
           {"renew", "--owner", owner},
           {"dead-letters"},
           {"dead-letters", "list", "--limit", "0"},
           {"dead-letters", "list", "--after", "yesterday"},
           {"dead-letters", "list", "--start-after", "42"},
           {"dead-letters", "show", "42"},
           {"dead-letters", "replay", "42"},
           {"pause", ""},
           {"resume", std::string(256, 'x')},
           {"work"},
           {"work", "--exec", ""},
           {"work", "--exec", "true", "--topic", ""},
           {"work", "--exec", "true", "--threads", "-1"},
           {"work", "--exec", "true", "--batch", "0"},
           {"work", "--exec", "true", "--lease", "0.01"},
           {"work", "--exec", "true", "--poll", "0"},
           {"work", "--exec", "true", "--timeout", "-1"},
           {"work", "--exec", "true", "--snooze", "nan"},
           {"work", "--exec", "true", "--drain", "-1"},
           {"work", "--exec", "true", "--max-attempts", "0"}}) {
    EXPECT_EQ(dovetail(arguments).code, 2) << ::testing::PrintToString(arguments);
  }
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox")), 0);
}

}  // namespace
}  // namespace dovetail::testing
