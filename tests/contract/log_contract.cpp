// The contents of log lines, and secrets that they never contain, on both engines.
#include "support/backend.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class LogContract : public BackendTest {
 protected:
  LogContract() {
    auto options = backend.options();
    options.log_sink = sink;
    platform.emplace(Platform::open(backend.url(), options));
  }
  std::shared_ptr<RecordedLines> sink = std::make_shared<RecordedLines>();
  std::optional<Platform> platform;
};
DOVETAIL_CONTRACT(LogContract);

TEST_P(LogContract, OBX_102_OBX_103_EnqueuesAndClaimsAreLoggedWithTheirStore) {
  auto& outbox = platform->outbox();
  const auto id = outbox.enqueue({.topic = "order.created", .correlation_id = "c-77"});
  (void)outbox.claim({.owner = OwnerToken::generate()});
  const auto store = "store=" + platform->name();
  EXPECT_THAT(sink->all(), Contains("info outbox.enqueued " + store +
                                    " topic=order.created message_id=" + id.to_string() +
                                    " correlation_id=c-77"));
  EXPECT_THAT(sink->all(), Contains(::testing::AllOf(HasSubstr("debug outbox.claimed " + store),
                                                     HasSubstr("count=1"))));
}

TEST_P(LogContract, OBX_125_PayloadsNeverReachALogLineOrAnError) {
  auto& outbox = platform->outbox();
  const std::string secret = "swordfish";
  const auto owner = OwnerToken::generate();
  outbox.enqueue({.topic = "t", .payload = secret});
  outbox.enqueue_many(std::vector<EnqueueRequest>(3, {.topic = "t", .payload = secret}));
  auto transaction = platform->begin();
  outbox.enqueue(transaction, {.topic = "t", .payload = secret});
  transaction.commit();
  for (const auto& each : outbox.claim({.owner = owner})) outbox.ack(owner, {{each.claim}});
  try {
    outbox.enqueue({.topic = "t", .payload = secret + "\xFF"});
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr(secret)));
  }
  backend.sql("drop table " + backend.table("outbox") + (backend.is_postgres() ? " cascade" : ""));
  try {
    outbox.enqueue({.topic = "t", .payload = secret});
    FAIL() << "stored without a table";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr(secret)));
    EXPECT_THAT(error.statement(), StartsWith("outbox_enqueue"));
  }
  EXPECT_FALSE(sink->all().empty());
  for (const auto& line : sink->all()) EXPECT_THAT(line, Not(HasSubstr(secret)));
}

TEST_P(LogContract, WhatATransactionRollsBackIsNeitherLoggedNorCounted) {
  const auto owner = OwnerToken::generate();
  auto& outbox = platform->outbox();
  const auto join = platform->joins().start({.expected_steps = 3});
  const auto stored = outbox.enqueue({.topic = "t"});
  const auto claimed = outbox.claim({.owner = owner});
  const auto change = [&](Transaction& transaction) {
    outbox.enqueue(transaction, {.topic = "t"});
    outbox.enqueue_many(transaction, std::vector<EnqueueRequest>(2, {.topic = "t"}));
    outbox.enqueue(transaction, {.topic = "t", .joins = {join}});
    platform->inbox().enqueue(transaction, {.topic = "t", .source = "s", .message_id = "1"});
    (void)platform->inbox().try_begin(transaction, "s", "2");
    platform->joins().start(transaction, {.expected_steps = 1});
    platform->joins().fan_out(transaction, {.steps = {{.topic = "t"}}});
    platform->joins().attach(transaction, join, stored);
    platform->joins().attach(transaction, join, MessageId::generate());
    platform->timers().schedule(transaction, {.topic = "t", .delay = std::chrono::hours{1}});
    outbox.ack(transaction, owner, {{claimed.at(0).claim}});
  };
  const auto counted = [&] {
    std::vector<std::pair<std::string, std::uint64_t>> counters;
    for (const auto* name : {"dovetail_enqueued_total", "dovetail_inbox_begun_total",
                             "dovetail_joins_started_total", "dovetail_settled_total"}) {
      counters.emplace_back(name, platform->metrics().counter(name));
    }
    return counters;
  };
  const auto lines = sink->all();
  const auto before = counted();
  {
    auto transaction = platform->begin();
    change(transaction);
    transaction.rollback();
  }
  EXPECT_EQ(sink->all(), lines);
  EXPECT_EQ(counted(), before);
  auto transaction = platform->begin();
  change(transaction);
  EXPECT_EQ(sink->all(), lines) << "nothing before the commit";
  transaction.commit();
  for (const auto* event :
       {"outbox.enqueued", "outbox.enqueued_many", "inbox.enqueued", "inbox.begun", "join.started",
        "join.attached", "join.attached_unknown", "outbox.acked"}) {
    EXPECT_GT(sink->count(event), 0) << event;
  }
  const auto after = counted();
  const std::vector<std::uint64_t> added{7, 1, 2, 1};  // enqueued: 5 + 1 of the inbox + 1 timer
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].second - before[i].second, added[i]) << after[i].first;
  }
}

}  // namespace
}  // namespace dovetail::testing
