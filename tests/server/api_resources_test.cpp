// Joins, timers, jobs, leases, streams, events, subscriptions and fan-outs over HTTP.
#include "dovetail/group.hpp"
#include "server/api_test.hpp"
#include "storage/backlog_store.hpp"
#include "storage/rollup_store.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ApiResources : public ApiTest {};
DOVETAIL_CONTRACT(ApiResources);

TEST_P(ApiResources, JoinsAreListedShownAndCancelled) {
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(platform.joins()
                      .fan_out({.metadata = R"({"password":"hunter2"})",
                                .steps = {{.topic = "a"}, {.topic = "b"}}})
                      .join.to_string());
  }
  const auto first = read("/joins?limit=2&status=pending");
  ASSERT_EQ(first["joins"].size(), 2U);
  const auto rest = read("/joins?limit=2&cursor=" + first["next"].get<std::string>());
  ASSERT_EQ(rest["joins"].size(), 1U);
  EXPECT_TRUE(rest["next"].is_null());
  EXPECT_THAT(get("/api/v1/joins").body, Not(HasSubstr("hunter2")));
  EXPECT_THAT(get("/api/v1/joins/" + ids[0] + "?payload=true").body, Not(HasSubstr("hunter2")));
  const auto members = read("/joins/" + ids[0] + "/members?limit=1");
  EXPECT_EQ(members["members"].size(), 1U);
  EXPECT_FALSE(members["next"].is_null());
  const auto steps = read("/joins/" + ids[0] + "/members?messages=true")["members"];
  EXPECT_EQ(steps[0]["message"]["topic"], "a");
  EXPECT_EQ(steps[0]["message"]["status"], "ready");
  EXPECT_EQ(change("/joins/" + ids[0] + "/cancel")["cancelled"], true);
  EXPECT_EQ(change("/joins/" + ids[0] + "/cancel")["cancelled"], false);
  change("/joins/" + JoinId::generate().to_string() + "/cancel", nullptr, 404);
  EXPECT_EQ(read("/joins/" + ids[0])["status"], "cancelled");
  EXPECT_THAT(audited(),
              ElementsAre("join.cancel " + ids[0] + " 1 ok", "join.cancel " + ids[0] + " 0 ok"));
}

TEST_P(ApiResources, AJoinAndItsMessagesLeadToEachOther) {
  const auto fan = platform.joins().fan_out(
      {.steps = {{.topic = "a"}}, .wait = Continuation{.on_complete_topic = "done"}});
  const auto join = fan.join.to_string();
  const auto waiting = read("/joins/" + join)["waiting"];
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0]["message_id"], fan.wait->to_string());
  EXPECT_EQ(waiting[0]["topic"], "join.wait");
  EXPECT_EQ(waiting[0]["on_complete_topic"], "done");
  EXPECT_TRUE(waiting[0]["continuation"].is_null());
  const auto step = read("/messages/" + fan.steps[0].to_string())["belongs_to"];
  EXPECT_EQ(step["joins"], nlohmann::json::array({join}));
  EXPECT_TRUE(step["awaited_join"].is_null());
  const auto wait = read("/messages/" + fan.wait->to_string())["belongs_to"];
  EXPECT_EQ(wait["awaited_join"], join);
  platform.outbox().enqueue(
      {.topic = "done", .message_id = Joins::continuation_of(*fan.wait)});  // as the handler does
  EXPECT_EQ(read("/joins/" + join)["waiting"][0]["continuation"]["topic"], "done");
}

TEST_P(ApiResources, TheHistoryHasItsBuckets) {
  const auto database = backend.open_database();
  const std::vector<storage::RollupRow> rows{{.queue = "outbox",
                                              .age = {},
                                              .counts = {.topic = "a/b?c#d",
                                                         .enqueued = 3,
                                                         .done = 2,
                                                         .calls = 2,
                                                         .handler_time = minutes{1},
                                                         .handler_time_max = minutes{1}}}};
  database->write({}, [&](storage::WriteSession& session) {
    database->store<storage::RollupStore>().flush(session, {Uuid::random(), 1, rows});
    database->store<storage::BacklogStore>().add(session, "outbox", {.ready = 7, .in_progress = 2});
  });
  const auto range = "&from=" + to_string(backend.now() - minutes{5}) +
                     "&to=" + to_string(backend.now() + minutes{5});
  const auto history = read("/history?step=10" + range);
  ASSERT_EQ(history["items"].size(), 1U);
  EXPECT_EQ(history["items"][0]["enqueued"], 3);
  EXPECT_EQ(history["items"][0]["handler_seconds"], 60.0);
  EXPECT_FALSE(history["items"][0].contains("topic"));
  ASSERT_EQ(history["backlog"].size(), 1U);
  EXPECT_EQ(history["backlog"][0]["ready"], 7);
  EXPECT_EQ(history["backlog"][0]["in_progress"], 2);
  EXPECT_TRUE(read("/history?by_topic=true" + range)["backlog"].is_null());
  EXPECT_EQ(read("/history?by_topic=true" + range)["items"][0]["topic"], "a/b?c#d");
  EXPECT_EQ(read("/history?topic=a%2Fb%3Fc%23d" + range)["items"].size(), 1U);
  EXPECT_EQ(read("/history?queue=inbox" + range)["items"].size(), 0U);
  read("/history?queue=odd", 404);
  for (const auto* wrong :
       {"step=7", "step=0", "step=x", "from=2020-01-01T00:00:00Z", "by_topic=true&step=10",
        "to=2020-01-01T00:00:00Z&from=2021-01-01T00:00:00Z"})
    read("/history?" + std::string{wrong}, 400);
}

TEST_P(ApiResources, TimersAreScheduledListedAndCancelled) {
  const auto timer =
      change("/timers", {{"topic", "t"}, {"payload", "p"}, {"delay_ms", 3'600'000}}, 201);
  change("/timers", {{"topic", "t"}, {"due_at", "2099-01-01T00:00:00Z"}}, 201);
  change("/timers", {{"topic", "t"}}, 400);
  change("/timers", {{"delay_ms", 1}}, 400);
  change("/timers", {{"topic", "t"}, {"delay_ms", -1}}, 400);
  const auto first = read("/timers?limit=1");
  ASSERT_EQ(first["timers"].size(), 1U);
  EXPECT_EQ(first["timers"][0]["timer_id"], timer["timer_id"]);
  EXPECT_FALSE(first["timers"][0].contains("payload"));
  EXPECT_EQ(read("/timers?limit=1&cursor=" + first["next"].get<std::string>())["timers"].size(),
            1U);
  const auto path = "/timers/" + timer["timer_id"].get<std::string>();
  EXPECT_EQ(read(path + "?payload=true")["payload"], "p");
  EXPECT_EQ(change(path + "/cancel")["cancelled"], true);
  EXPECT_EQ(change(path + "/cancel")["cancelled"], false);
  read(path, 404);
}

TEST_P(ApiResources, JobsAreShownTriggeredDisabledAndRemoved) {
  platform.jobs().create_or_update(
      {.name = "a/b", .topic = "t", .cron = "0 9 * * MON-FRI", .payload = "p"});
  EXPECT_FALSE(read("/jobs")["jobs"][0].contains("payload"));
  EXPECT_EQ(read("/jobs")["jobs"][0]["description"], read("/jobs/a%2Fb")["description"]);
  const auto job = read("/jobs/a%2Fb?payload=true");
  EXPECT_EQ(job["payload"], "p");
  EXPECT_EQ(job["next_runs"].size(), 5U);
  EXPECT_FALSE(job["description"].is_null());
  const auto run = change("/jobs/a%2Fb/trigger", nullptr, 201);
  EXPECT_EQ(read("/jobs/a%2Fb/runs")["runs"][0]["run_id"], run["run_id"]);
  EXPECT_EQ(change("/jobs/a%2Fb/disable")["disabled"], true);
  EXPECT_EQ(read("/jobs/a%2Fb")["enabled"], false);
  EXPECT_EQ(change("/jobs/a%2Fb/enable")["enabled"], true);
  EXPECT_EQ(change("/jobs/a%2Fb", nullptr, 200, "DELETE")["removed"], true);
  change("/jobs/a%2Fb", nullptr, 404, "DELETE");
  change("/jobs/a%2Fb/trigger", nullptr, 404);
  read("/jobs/a%2Fb", 404);
  EXPECT_THAT(audited(),
              ElementsAre("job.trigger a/b 1 ok", "job.disable a/b 1 ok", "job.enable a/b 1 ok",
                          "job.remove a/b 1 ok", "job.remove a/b 0 there is no job \"a/b\"",
                          "job.trigger a/b 0 there is no job \"a/b\""));
}

TEST_P(ApiResources, ALeaseIsReleasedWithItsToken) {
  const auto lease = platform.leases().try_acquire("l", "me", minutes{1});
  ASSERT_TRUE(lease.has_value());
  const auto listed = read("/leases")["leases"][0];
  EXPECT_EQ(listed["token"], std::to_string(lease->token));
  nlohmann::json body{{"name", "l"}, {"owner", "me"}, {"token", "999999"}};
  EXPECT_EQ(change("/leases/release", body)["released"], false);
  body["token"] = listed["token"];
  EXPECT_EQ(change("/leases/release", body)["released"], true);
  change("/leases/release", {{"name", "l"}, {"owner", "me"}}, 400);
  body["slot"] = 4'294'967'296;
  EXPECT_THAT(change("/leases/release", body, 400)["detail"].get<std::string>(),
              ::testing::HasSubstr("slot must be 0 to 2147483647"));
  EXPECT_EQ(read("/leases")["leases"].size(), 0U);
}

TEST_P(ApiResources, BlockedStreamsAreResumedAndSkipped) {
  for (const std::string stream : {"a", "b"}) {
    platform.outbox().enqueue({.topic = "t", .stream = stream});
    const auto claimed = platform.outbox().claim_streams({.owner = owner});
    ASSERT_EQ(claimed.size(), 1U);
    platform.outbox().fail(owner, std::vector{claimed[0].claim}, "broken");
  }
  platform.outbox().enqueue({.topic = "t", .stream = "c"});
  EXPECT_EQ(read("/streams")["streams"].size(), 3U);
  EXPECT_EQ(read("/streams?blocked=true&limit=1")["streams"][0]["stream"], "a");
  EXPECT_EQ(change("/streams/a/resume")["resumed"], true);
  EXPECT_EQ(change("/streams/b/skip", {{"queue", "outbox"}})["skipped"], true);
  EXPECT_EQ(change("/streams/b/skip")["skipped"], false);
  EXPECT_EQ(read("/streams/a")["state"], "ready");
  read("/streams/b", 404);
  EXPECT_EQ(read("/dead-letters")["dead_letters"].size(), 1U);
}

TEST_P(ApiResources, EventsAreRead) {
  for (int i = 0; i < 3; ++i) {
    platform.events().append("order/1", ExpectedVersion::any(),
                             {{.type = "Paid", .data = R"({"token":"hunter2","n":1})"}});
  }
  platform.events().stamp();
  EXPECT_EQ(read("/event-streams?prefix=order")["streams"][0]["version"], "3");
  EXPECT_EQ(read("/event-streams/order%2F1")["stream"], "order/1");
  const auto first = read("/event-streams/order%2F1/events?limit=2&payload=true");
  EXPECT_EQ(first["events"][0]["data"], R"({"token":"[redacted]","n":1})");
  const auto rest =
      read("/event-streams/order%2F1/events?limit=2&cursor=" + first["next"].get<std::string>());
  ASSERT_EQ(rest["events"].size(), 1U);
  EXPECT_EQ(rest["events"][0]["version"], "3");
  EXPECT_FALSE(rest["events"][0].contains("data"));
  EXPECT_EQ(read("/event-streams/order%2F1/events?from=2")["events"][0]["version"], "2");
  const auto feed = read("/event-feed?after=1&limit=1");
  EXPECT_EQ(feed["events"][0]["position"], "2");
  EXPECT_EQ(feed["upto"], "2");
  read("/event-streams/none", 404);
}

TEST_P(ApiResources, SubscriptionsArePausedSkippedAndRebuilt) {
  platform.events().append("s", ExpectedVersion::any(), {{.type = "T"}, {.type = "T"}});
  platform.events().stamp();
  platform.events().subscribe("billing", {}, [](auto, auto&) {});
  platform.start();
  ASSERT_TRUE(eventually([&] {
    const auto found = platform.events().subscriptions().find("billing");
    return found && found->position == 2;
  }));
  const std::string one = "/subscriptions/billing";
  EXPECT_EQ(change(one + "/pause")["paused"], true);
  EXPECT_FALSE(read("/subscriptions")["subscriptions"][0]["paused_at"].is_null());
  EXPECT_EQ(change(one + "/rebuild", {{"position", "1"}})["rebuilt"], true);
  EXPECT_EQ(read(one)["position"], "1");
  EXPECT_EQ(change(one + "/skip", {{"position", 2}})["skipped"], true);
  EXPECT_EQ(read(one)["parked_events"][0]["position"], "2");
  EXPECT_EQ(change(one + "/resume")["resumed"], true);
  change(one + "/skip", nullptr, 400);
  change("/subscriptions/none/pause", nullptr, 404);
  read("/subscriptions/none", 404);
}

TEST_P(ApiResources, FanoutsRunAndChangeTheirCadence) {
  platform.fanout().add(
      {.topic = "etl", .work_key = "w", .cron = "@daily"},
      [](const FanoutPlan&) -> FanoutCandidates { return std::vector<FanoutCandidate>{}; });
  EXPECT_EQ(read("/fanouts?topic=etl")["fanouts"][0]["work_key"], "w");
  EXPECT_EQ(change("/fanouts/etl/run", {{"work_key", "w"}}, 201)["run_ids"].size(), 1U);
  EXPECT_EQ(change("/fanouts/etl/cadence", {{"work_key", "w"}, {"every_ms", 60'000}})["set"], true);
  EXPECT_EQ(read("/fanouts")["fanouts"][0]["every_ms"], 60'000);
  EXPECT_EQ(change("/fanouts/etl/cadence", {{"work_key", "w"}})["reset"], true);
  EXPECT_THAT(change("/fanouts/etl/cadence", {{"work_key", "w"}, {"jitter_ms", 5}}, 400)["detail"]
                  .get<std::string>(),
              ::testing::HasSubstr("jitter_ms needs every_ms"));
  change("/fanouts/none/run", nullptr, 404);
  EXPECT_EQ(read("/fanouts/etl/cursors")["cursors"].size(), 0U);
}

TEST_P(ApiResources, TheAuditIsPagedAndNamesTheActor) {
  for (int i = 0; i < 3; ++i) change("/queues/outbox/topics/t/pause");
  const auto first = read("/audit?limit=2");
  ASSERT_EQ(first["entries"].size(), 2U);
  EXPECT_EQ(first["entries"][0]["action"], "topic.pause");
  EXPECT_EQ(first["entries"][0]["target"], "outbox/t");
  EXPECT_EQ(first["entries"][0]["count"], "0");
  EXPECT_FALSE(first["entries"][0]["actor"].get<std::string>().empty());
  const auto rest = read("/audit?limit=2&cursor=" + first["next"].get<std::string>());
  ASSERT_EQ(rest["entries"].size(), 1U);
  EXPECT_EQ(rest["entries"][0]["count"], "1");
}

TEST_P(ApiResources, AGroupNeedsADatabase) {
  PlatformGroup group({.database = backend.options()});
  group.add("one", backend.url(), backend.schema());
  group.add("t/2", backend.url(), backend.schema());
  server = std::make_unique<Server>(group, test_server_options());
  server->start();
  EXPECT_EQ(read("/databases")["databases"].size(), 2U);
  EXPECT_THAT(read("/overview", 400)["detail"].get<std::string>(), HasSubstr("?database=KEY"));
  EXPECT_EQ(read("/overview?database=t%2F2")["database"], "t/2");
  read("/overview?database=none", 404);
  EXPECT_EQ(change("/messages?database=one", {{"topic", "t"}}, 201)["stored"], true);
  EXPECT_EQ(platform.outbox().counts().ready, 1);
}

}  // namespace
}  // namespace dovetail::testing
