// Messages, queues and dead letters over HTTP.
#include <set>

#include "server/api_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ApiMessages : public ApiTest {};
DOVETAIL_CONTRACT(ApiMessages);

TEST_P(ApiMessages, PayloadsAreShownUnharmedAndOnlyOnRequest) {
  const std::string payload =
      R"({"html":"<script>alert('x')</script>","n":9007199254740993,"e":"\u00e9"})";
  const MessageId id = platform.outbox().enqueue({.topic = "t", .payload = payload});
  const auto path = "/messages/" + id.to_string();
  EXPECT_FALSE(read(path).contains("payload"));
  EXPECT_EQ(read(path + "?payload=true")["payload"], payload);
  EXPECT_FALSE(read("/messages")["messages"][0].contains("payload"));
  EXPECT_EQ(read("/messages?payload=true", 400)["status"], 400);

  const auto stored = change("/messages", {{"topic", "t"}, {"payload", payload}}, 201);
  const auto copy = read("/messages/" + stored["message_id"].get<std::string>() + "?payload=true");
  EXPECT_EQ(copy["payload"], payload);
}

TEST_P(ApiMessages, SecretsInPayloadsAndHeadersAreNotShown) {
  const MessageId id = platform.outbox().enqueue(
      {.topic = "t",
       .payload = R"({"user":"bob","Pass\u0077ord" : "hunter2","in":{"token":["hunter3",{"a":1}]},)"
                  R"("n":12345678901234567890123})",
       .headers = {{"Authorization", "hunter4"}, {"trace", "1"}}});
  const auto answer = get("/api/v1/messages/" + id.to_string() + "?payload=true");
  EXPECT_THAT(answer.body, Not(HasSubstr("hunter")));
  const auto message = json_of(answer);
  EXPECT_EQ(message["payload"],
            R"({"user":"bob","Pass\u0077ord" : "[redacted]","in":{"token":"[redacted]"},)"
            R"("n":12345678901234567890123})");
  EXPECT_EQ(message["headers"]["trace"], "1");
  EXPECT_THAT(get("/api/v1/messages").body, Not(HasSubstr("hunter")));
}

TEST_P(ApiMessages, TopicsMayContainAnything) {
  const std::string topic = "a/b?c#d%&=<i>";
  const std::string encoded = "a%2Fb%3Fc%23d%25%26%3D%3Ci%3E";
  platform.outbox().enqueue({.topic = topic});
  platform.outbox().enqueue({.topic = "other"});
  const auto list = read("/messages?topic=" + encoded);
  ASSERT_EQ(list["messages"].size(), 1U);
  EXPECT_EQ(list["messages"][0]["topic"], topic);
  const auto paused = change("/queues/outbox/topics/" + encoded + "/pause");
  EXPECT_EQ(paused["topic"], topic);
  EXPECT_EQ(paused["changed"], true);
  EXPECT_EQ(platform.outbox().paused_topics().at(0).topic, topic);
  EXPECT_EQ(read("/messages?state=paused")["messages"][0]["topic"], topic);
  EXPECT_EQ(change("/queues/outbox/topics/" + encoded + "/resume")["changed"], true);
}

TEST_P(ApiMessages, PagesStayCompleteWhileMessagesArrive) {
  std::set<std::string> wanted;
  for (int i = 0; i < 7; ++i) wanted.insert(platform.outbox().enqueue({.topic = "t"}).to_string());
  std::multiset<std::string> seen;
  std::string query = "?limit=2";
  for (int pages = 0; pages < 20; ++pages) {
    const auto page = read("/messages" + query);
    for (const auto& each : page["messages"]) seen.insert(each["message_id"].get<std::string>());
    if (page["next"].is_null()) break;
    query = "?limit=2&cursor=" + page["next"].get<std::string>();
    platform.outbox().enqueue({.topic = "t"});
  }
  EXPECT_EQ(std::multiset<std::string>(wanted.begin(), wanted.end()), seen);
}

TEST_P(ApiMessages, TimesHaveOffsetsAndFractions) {
  platform.outbox().enqueue({.topic = "t"});
  for (const auto* time : {"2020-01-31T09:30:00Z", "2020-01-31T09:30:00.123456789Z",
                           "2020-01-31T10:30:00.5%2B01:00", "2020-02-29T23:59:59-23:59"}) {
    EXPECT_EQ(read("/messages?created_after=" + std::string{time})["messages"].size(), 1U) << time;
    EXPECT_EQ(read("/messages?created_before=" + std::string{time})["messages"].size(), 0U) << time;
  }
  for (const auto* time : {"2021-02-29T00:00:00Z", "2020-01-31", "2020-01-31T24:00:00Z",
                           "2020-01-31T09:30:00", "2020-01-31T09:30:00.Z", "2020-1-31T09:30:00Z",
                           "2020-01-31T09:30:00Zx", "-020-01-31T09:30:00Z"})
    read("/messages?created_after=" + std::string{time}, 400);
  const auto timer =
      change("/timers", {{"topic", "t"}, {"due_at", "2099-01-31T10:30:00.25+01:00"}}, 201);
  EXPECT_EQ(read("/timers/" + timer["timer_id"].get<std::string>())["due_at"],
            "2099-01-31T09:30:00.250000Z");
}

TEST_P(ApiMessages, AMessageSaysWhatItBelongsTo) {
  platform.jobs().create_or_update({.name = "nightly", .topic = "report", .cron = "@daily"});
  const auto run = change("/jobs/nightly/trigger", nullptr, 201)["run_id"].get<std::string>();
  platform.jobs().schedule_due();
  const auto message = read("/messages/" + run);
  EXPECT_EQ(message["belongs_to"]["job_run_id"], run);
  EXPECT_EQ(message["queue"], "outbox");
  const MessageId id = platform.outbox().enqueue({.topic = "t", .stream = "s"});
  EXPECT_EQ(read("/messages/" + id.to_string())["belongs_to"]["stream"], "s");
}

TEST_P(ApiMessages, AMessageHasItsFailedAttempts) {
  auto& outbox = platform.outbox();
  const MessageId id = outbox.enqueue({.topic = "t"});
  const auto claim = outbox.claim({.owner = owner}).at(0).claim;
  outbox.abandon(owner, std::vector{claim}, {.error = "busy", .delay = std::chrono::seconds{0}});
  const auto again = outbox.claim({.owner = owner}).at(0).claim;
  outbox.fail(owner, std::vector{again}, "gone");
  const auto failures = read("/messages/" + id.to_string())["failures"];
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_EQ(failures[0]["attempt"], 1);
  EXPECT_EQ(failures[0]["kind"], "failed");
  EXPECT_EQ(failures[0]["error"], "busy");
  EXPECT_EQ(failures[0]["owner"], owner.to_string());
  EXPECT_EQ(failures[1]["error"], "gone");
  EXPECT_FALSE(read("/messages")["messages"][0].contains("failures"));
}

TEST_P(ApiMessages, ATimerIsFoundAmongTheMessages) {
  const auto timer = platform.timers().schedule({.topic = "t", .delay = std::chrono::hours{1}});
  EXPECT_EQ(read("/messages/" + timer.to_string())["queue"], "timers");
  EXPECT_EQ(read("/messages/" + timer.to_string() + "?queue=outbox", 404)["status"], 404);
  EXPECT_EQ(read("/messages?queue=timers&state=scheduled")["messages"].size(), 1U);
}

TEST_P(ApiMessages, DeadLettersAreGroupedReplayedAndPurged) {
  const auto one = failed_one("mail").to_string();
  const auto two = failed_one("mail").to_string();
  failed_one("sms", "p", "no signal");
  const auto groups = read("/dead-letters/groups")["groups"];
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0]["count"], 2);
  EXPECT_EQ(read("/dead-letters?topic=mail")["dead_letters"].size(), 2U);
  EXPECT_EQ(change("/dead-letters/replay", {{"message_ids", {one}}})["replayed"], 1);
  EXPECT_EQ(change("/dead-letters/replay", {{"message_ids", {one}}})["replayed"], 0);
  EXPECT_EQ(change("/dead-letters/purge", {{"message_ids", {two}}})["purged"], 1);
  change("/dead-letters/replay", {{"message_ids", nlohmann::json::array()}}, 400);
  change("/dead-letters/replay", {{"message_ids", {"x"}}}, 400);
  change("/dead-letters/replay", {{"message_ids", {one}}, {"queue", "odd"}}, 404);
  EXPECT_EQ(read("/queues/outbox")["failed"], 1);
  EXPECT_THAT(audited(), ::testing::ElementsAre("dead_letters.replay outbox 1 ok",
                                                "dead_letters.replay outbox 0 ok",
                                                "dead_letters.purge outbox 1 ok"));
}

TEST_P(ApiMessages, DeadLettersAreListedByError) {
  for (int i = 0; i < 7; ++i) failed_one("mail", "p", i % 2 == 0 ? "bounced" : "full");
  const auto first = read("/dead-letters?error=full&limit=2");
  ASSERT_EQ(first["dead_letters"].size(), 2U);
  const auto rest =
      read("/dead-letters?error=full&limit=2&cursor=" + first["next"].get<std::string>());
  ASSERT_EQ(rest["dead_letters"].size(), 1U);
  EXPECT_EQ(rest["dead_letters"][0]["last_error"], "full");
  EXPECT_FALSE(rest["cut"]);
  EXPECT_EQ(read("/dead-letters?error=none")["dead_letters"].size(), 0U);
}

TEST_P(ApiMessages, TwoOperatorsReplayEachDeadLetterOnce) {
  for (int i = 0; i < 60; ++i) failed_one("mail");
  const nlohmann::json body{{"filter", {{"topic", "mail"}}}};
  const auto preview =
      change("/dead-letters/replays", {{"filter", {{"topic", "mail"}}}, {"dry_run", true}});
  EXPECT_EQ(preview["would_change"], 60);
  EXPECT_EQ(preview["capped"], false);
  const auto one = change("/dead-letters/replays", body, 202);
  const auto two = change("/dead-letters/replays", body, 202);
  std::int64_t changed = 0;
  for (const auto& started : {one, two}) {
    nlohmann::json replay;
    const auto path = "/dead-letters/replays/" + started["replay_id"].get<std::string>();
    ASSERT_TRUE(eventually([&] {
      replay = read(path);
      return replay["state"] != "running";
    }));
    EXPECT_EQ(replay["state"], "done") << replay;
    changed += replay["changed"].get<std::int64_t>();
    EXPECT_EQ(change(path + "/cancel")["cancelled"], false);
  }
  EXPECT_EQ(changed, 60);
  EXPECT_EQ(read("/queues/outbox")["ready"], 60);
  EXPECT_EQ(read("/dead-letters/replays")["replays"].size(), 2U);
}

TEST_P(ApiMessages, ReplaysCheckTheirArguments) {
  change("/dead-letters/replays", {{"rate", 0}}, 400);
  change("/dead-letters/replays", {{"limit", 0}}, 400);
  change("/dead-letters/replays", {{"queue", "odd"}}, 404);
  change("/dead-letters/replays", {{"filter", {{"colour", "red"}}}}, 400);
  change("/dead-letters/replays", {{"colour", "red"}}, 400);
  const auto unknown = "/dead-letters/replays/" + ReplayId::generate().to_string();
  read(unknown, 404);
  change(unknown + "/cancel", nullptr, 404);
  EXPECT_EQ(change("/dead-letters/purges", {{"dry_run", true}})["would_change"], 0);
}

TEST_P(ApiMessages, ManyMessagesAreCountedUpToALimit) {
  std::vector<EnqueueRequest> many(10'001, {.topic = "t"});
  platform.outbox().enqueue_many(many);
  const auto queue = read("/queues/outbox");
  EXPECT_EQ(queue["ready"], 10'000);
  EXPECT_THAT(queue["capped"], ::testing::ElementsAre("ready"));
  EXPECT_EQ(read("/queues/outbox/topics")["cut"], true);
}

}  // namespace
}  // namespace dovetail::testing
