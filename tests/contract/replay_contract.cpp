// Replays of dead letters in the background, and the audit.
#include "support/eventually.hpp"
#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ReplayContract : public OutboxTest {
 protected:
  Replay ended(ReplayId id) {
    std::optional<Replay> found;
    EXPECT_TRUE(eventually([&] {
      found = replays.find(id);
      return found && found->state != ReplayState::running;
    }));
    return found.value_or(Replay{});
  }
  void fail_many(int count, const std::string& topic, const std::string& error) {
    for (int i = 0; i < count; ++i) outbox.enqueue({.topic = topic});
    EXPECT_EQ(outbox.fail(owner, claims_of(claim(count)), error), count);
  }
  std::int64_t dead_letters() { return with_status(MessageStatus::failed); }

  Replays& replays = platform.replays();
};
DOVETAIL_CONTRACT(ReplayContract);

TEST_P(ReplayContract, MakesMatchingDeadLettersReadyAndCountsThem) {
  fail_many(3, "mail", "bounced");
  fail_many(2, "mail", "full");
  fail_many(1, "sms", "bounced");
  const ReplayRequest request{.filter = {.topic = "mail"}, .error = "bounced", .actor = "alice"};
  const auto preview = replays.preview(request);
  EXPECT_EQ(preview.count, 3);
  EXPECT_FALSE(preview.cut);
  EXPECT_THAT(preview.first, SizeIs(3));
  EXPECT_EQ(dead_letters(), 6);

  const auto started = replays.start(request);
  const auto done = ended(started.id);
  EXPECT_EQ(done.state, ReplayState::done);
  EXPECT_EQ(done.changed, 3);
  EXPECT_EQ(done.examined, 5);
  EXPECT_EQ(done.request.actor, "alice");
  EXPECT_EQ(done.request.error, "bounced");
  EXPECT_TRUE(done.finished_at.has_value());
  EXPECT_EQ(dead_letters(), 3);
  EXPECT_EQ(outbox.counts().ready, 3);
  EXPECT_THAT(replays.list(), SizeIs(1));
}

TEST_P(ReplayContract, ItsEndAndItsResultAreInTheAudit) {
  fail_many(3, "mail", "bounced");
  const auto replay = replays.start({.actor = "alice"});
  ended(replay.id);
  std::vector<AuditEntry> entries;
  ASSERT_TRUE(eventually([&] { return (entries = platform.audit().list()).size() == 1; }));
  const auto& record = entries[0].record;
  EXPECT_EQ(record.actor, "alice");
  EXPECT_EQ(record.action, "dead_letters.replay_ended");
  EXPECT_EQ(record.target, "outbox");
  EXPECT_THAT(record.detail, ::testing::HasSubstr(replay.id.to_string()));
  EXPECT_EQ(record.count, 3);
  EXPECT_EQ(record.result, "ok");
}

TEST_P(ReplayContract, StopsAtItsLimit) {
  fail_many(5, "mail", "bounced");
  EXPECT_EQ(replays.preview({.limit = 2}).count, 2);
  const auto done = ended(replays.start({.limit = 2}).id);
  EXPECT_EQ(done.state, ReplayState::done);
  EXPECT_EQ(done.changed, 2);
  EXPECT_EQ(dead_letters(), 3);
}

TEST_P(ReplayContract, PurgesDeadLetters) {
  fail_many(3, "mail", "bounced");
  fail_many(1, "sms", "bounced");
  const auto done =
      ended(replays.start({.kind = ReplayKind::purge, .filter = {.topic = "mail"}}).id);
  EXPECT_EQ(done.changed, 3);
  EXPECT_EQ(stored(), 1);
}

TEST_P(ReplayContract, TwoAtOnceReplayEachDeadLetterOnce) {
  fail_many(100, "mail", "bounced");
  auto other_platform = backend.open();
  const auto one = replays.start({.filter = {.topic = "mail"}}).id;
  const auto two = other_platform.replays().start({}).id;
  const auto first = ended(one);
  const auto second = ended(two);
  EXPECT_EQ(first.state, ReplayState::done);
  EXPECT_EQ(second.state, ReplayState::done);
  EXPECT_EQ(first.changed + second.changed, 100);
  EXPECT_EQ(dead_letters(), 0);
  EXPECT_EQ(outbox.counts().ready, 100);
}

TEST_P(ReplayContract, AnyProcessMayCancel) {
  fail_many(20, "mail", "bounced");
  auto other_platform = backend.open();
  // With one per second, it cannot have ended.
  const auto id = replays.start({.rate = 1}).id;
  ASSERT_TRUE(eventually([&] { return replays.find(id)->changed >= 1; }));
  EXPECT_TRUE(other_platform.replays().cancel(id));
  EXPECT_FALSE(other_platform.replays().cancel(id));
  EXPECT_FALSE(replays.cancel(ReplayId::generate()));
  const auto found = ended(id);
  EXPECT_EQ(found.state, ReplayState::cancelled);
  EXPECT_EQ(found.changed, 20 - dead_letters());
}

TEST_P(ReplayContract, EndsWithItsProcessAndSaysSo) {
  fail_many(20, "mail", "bounced");
  ReplayId id;
  {
    auto other_platform = backend.open();
    id = other_platform.replays().start({.rate = 1}).id;
    ASSERT_TRUE(eventually([&] { return replays.find(id)->changed >= 1; }));
  }
  const auto found = replays.find(id);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->state, ReplayState::interrupted);
  EXPECT_EQ(found->changed, 20 - dead_letters());
}

TEST_P(ReplayContract, WithoutAReportForAMinuteItIsInterrupted) {
  const auto id = replays.start({}).id;
  EXPECT_EQ(ended(id).state, ReplayState::done);
  backend.sql("update " + backend.table("replay") + " set state = 'running'");
  EXPECT_EQ(replays.find(id)->state, ReplayState::running);
  backend.advance(minutes{2});
  EXPECT_EQ(replays.find(id)->state, ReplayState::interrupted);
  EXPECT_EQ(replays.list().at(0).state, ReplayState::interrupted);
}

TEST_P(ReplayContract, AreListedInPagesAndPurged) {
  std::vector<ReplayId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(ended(replays.start({}).id).id);
  const auto page = replays.list({.size = 2});
  ASSERT_THAT(page, SizeIs(2));
  EXPECT_EQ(page[0].id, ids[2]);
  EXPECT_EQ(replays.list({.before = page[1].id}).at(0).id, ids[0]);
  EXPECT_EQ(replays.purge(hours{1}), 0U);
  backend.advance(hours{2});
  EXPECT_EQ(replays.purge(hours{1}), 3U);
  EXPECT_THAT(replays.list(), IsEmpty());
}

TEST_P(ReplayContract, RejectsBadRequests) {
  EXPECT_THROW((void)replays.start({.queue = "nowhere"}), InvalidOperation);
  EXPECT_THROW((void)replays.start({.filter = {.topic = ""}}), std::invalid_argument);
  EXPECT_THROW((void)replays.start({.limit = 0}), std::out_of_range);
  EXPECT_THROW((void)replays.start({.rate = 0}), std::out_of_range);
  EXPECT_THROW((void)replays.preview({.rate = 1'000'000}), std::out_of_range);
  EXPECT_THROW((void)replays.list({.size = 0}), std::out_of_range);
  EXPECT_THAT(replays.list(), IsEmpty());
}

class AuditContract : public BackendTest {
 protected:
  Platform platform = backend.open();
  Audit& audit = platform.audit();
};
DOVETAIL_CONTRACT(AuditContract);

TEST_P(AuditContract, RecordsAreListedNewestFirst) {
  const auto before = backend.now();
  audit.record({.actor = "alice", .action = "queue.pause", .target = "outbox/mail"});
  audit.record({.actor = "bob",
                .action = "dead_letters.replay",
                .target = "outbox",
                .detail = R"({"topic":"mail"})",
                .count = 9'007'199'254'740'993});
  const auto entries = audit.list();
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(entries[0].record.actor, "bob");
  EXPECT_EQ(entries[0].record.count, 9'007'199'254'740'993);
  EXPECT_EQ(entries[0].record.detail, R"({"topic":"mail"})");
  EXPECT_EQ(entries[1].record.target, "outbox/mail");
  EXPECT_EQ(entries[1].record.count, std::nullopt);
  EXPECT_EQ(entries[1].record.result, "ok");
  EXPECT_GE(entries[1].at, before);
  EXPECT_THAT(audit.list({.size = 1}), SizeIs(1));
  EXPECT_EQ(audit.list({.before = entries[0].id}).at(0).id, entries[1].id);
}

TEST_P(AuditContract, ARecordCommitsWithItsTransaction) {
  auto transaction = platform.begin();
  audit.record(transaction, {.actor = "alice", .action = "a"});
  transaction.rollback();
  EXPECT_THAT(audit.list(), IsEmpty());
  auto second = platform.begin();
  audit.record(second, {.actor = "alice", .action = "b"});
  second.commit();
  EXPECT_THAT(audit.list(), SizeIs(1));
}

TEST_P(AuditContract, OldRecordsArePurgedAndLongTextsTruncated) {
  audit.record({.actor = "alice", .action = "a", .detail = std::string(5'000, 'x')});
  EXPECT_EQ(audit.list().at(0).record.detail.size(), 2'048U);
  EXPECT_EQ(audit.purge(hours{1}), 0U);
  backend.advance(hours{2});
  EXPECT_EQ(audit.purge(hours{1}), 1U);
  EXPECT_THAT(audit.list(), IsEmpty());
  EXPECT_THROW(audit.record({.action = "a"}), std::invalid_argument);
  EXPECT_THROW(audit.record({.actor = "a"}), std::invalid_argument);
}

}  // namespace
}  // namespace dovetail::testing
