// Which instance handles which topic: the rules, without a database.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dovetail/error.hpp"
#include "instance/unhandled.hpp"
#include "storage/instance_store.hpp"

namespace {

using namespace dovetail;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Instance, HandlesTheTopicsOfItsHandlersInTheirQueueOnly) {
  const InstanceInfo instance{.queues = {{"inbox", {}, true}, {"outbox", {"a", "c"}, false}}};
  EXPECT_TRUE(instance.handles("outbox", "a"));
  EXPECT_TRUE(instance.handles("outbox", "c"));
  EXPECT_FALSE(instance.handles("outbox", "b"));
  EXPECT_FALSE(instance.handles("outbox", "A"));
  EXPECT_TRUE(instance.handles("inbox", "b"));
  EXPECT_FALSE(instance.handles("timers", "b"));
}

TEST(Instance, HandlesNothingWhileItDrainsOrIsStale) {
  InstanceInfo instance{.queues = {{"outbox", {"a"}, true}}};
  EXPECT_TRUE(instance.handles("outbox", "a"));
  instance.state = InstanceState::draining;
  EXPECT_FALSE(instance.handles("outbox", "a"));
  instance.state = InstanceState::running;
  instance.stale = true;
  EXPECT_FALSE(instance.handles("outbox", "a"));
}

TEST(Instance, HandlersSurviveTheirWayThroughJson) {
  const std::vector<InstanceQueue> queues{{"inbox", {}, true},
                                          {"outbox", {"a", "b \"quoted\"", "ä"}, false}};
  EXPECT_EQ(storage::queues_from_json(storage::handlers_json(queues)), queues);
  EXPECT_THAT(storage::queues_from_json(storage::handlers_json({})), IsEmpty());
}

TEST(Instance, JsonThatSomebodyWroteByHandIsReadAsFarAsItGoes) {
  EXPECT_THAT(storage::queues_from_json("no json"), IsEmpty());
  EXPECT_THAT(storage::queues_from_json("[1]"), IsEmpty());
  EXPECT_THAT(
      storage::queues_from_json(R"({"x":1,"outbox":{"topics":["b",2,"a"],"all_topics":"yes"}})"),
      ElementsAre(InstanceQueue{"outbox", {"a", "b"}, false}));
}

TEST(Instance, StatesHaveNames) {
  EXPECT_EQ(to_string(InstanceState::running), "running");
  EXPECT_EQ(to_string(InstanceState::draining), "draining");
  EXPECT_EQ(storage::instance_state("draining"), InstanceState::draining);
  EXPECT_THROW((void)storage::instance_state("gone"), InvalidOperation);
}

TEST(UnhandledTopics, AreThoseThatNoInstanceHandles) {
  const std::vector<storage::DueTopic> due{{"a", 1, seconds{70}}, {"b", 2, seconds{80}}};
  const std::vector<InstanceInfo> instances{{.queues = {{"outbox", {"a"}, false}}}};
  const auto found = instance::unhandled(instances, "outbox", due);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].queue, "outbox");
  EXPECT_EQ(found[0].topic, "b");
  EXPECT_EQ(found[0].seen, 2);
  EXPECT_EQ(found[0].oldest_wait, seconds{80});
  EXPECT_EQ(instance::unhandled(instances, "inbox", due).size(), 2U);
  EXPECT_EQ(instance::unhandled({}, "outbox", due).size(), 2U);
}

TEST(UnhandledTopics, AreSortedByTheirWait) {
  std::vector<UnhandledTopic> topics{{.queue = "outbox", .topic = "b", .oldest_wait = seconds{1}},
                                     {.queue = "outbox", .topic = "a", .oldest_wait = seconds{1}},
                                     {.queue = "inbox", .topic = "c", .oldest_wait = seconds{2}}};
  instance::sort_by_wait(topics);
  EXPECT_EQ(topics[0].topic, "c");
  EXPECT_EQ(topics[1].topic, "a");
  EXPECT_EQ(topics[2].topic, "b");
}

}  // namespace
