// The order of all events under transactions that commit late, roll back, or stay open. Also wrong
// ways to read or to stamp that look right: the same tests must detect them.
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/postgres_session.hpp"

namespace dovetail::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Session = PostgresSession;
using Names = std::vector<std::string>;

class PostgresEventFeed : public ::testing::Test {
 protected:
  [[nodiscard]] std::string append(const std::string& stream) const {
    return "select outcome from " + infra + ".event_try_append('" + stream + "', -1, '{T}', '{d}')";
  }
  void append_and_commit(const std::string& stream) const {
    Session session(backend);
    EXPECT_EQ(session.run(append(stream)), "appended");
    session.run("commit");
  }
  [[nodiscard]] Names names_of(const std::string& query) const {
    Names found;
    for (const auto& row : backend.sql(query)) found.push_back(row.get<std::string>(0));
    return found;
  }

  // Readers. Each returns the events that it has not returned before.

  Names by_position() {
    platform.events().stamp();
    const auto feed = platform.events().read_all({.after = after});
    after = feed.upto;
    Names found;
    for (const auto& event : feed.events) found.push_back(event.stream);
    return found;
  }
  /// Wrong: a lower number may be committed later.
  Names by_sequence() {
    const auto found = names_of("select key::text from " + infra + ".event where no > " +
                                std::to_string(after) + " order by no");
    after = backend.number("select coalesce(max(no), 0)::bigint from " + infra + ".event");
    return found;
  }
  /// Wrong: it waits for all open transactions, and a transaction with a lower id may have read an
  /// event of a transaction with a higher id.
  Names by_transaction_id() {
    Names found;
    for (const auto& row : backend.sql(
             "select key::text, xmin::text::bigint from " + infra +
             ".event where xmin::text::bigint > " + std::to_string(after) +
             " and xmin::text::bigint < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
             " order by xmin::text::bigint, no")) {
      found.push_back(row.get<std::string>(0));
      after = row.get<std::int64_t>(1);
    }
    return found;
  }

  /// Replaces a part of event_stamp.
  void change_stamper(const std::string& part, const std::string& by) const {
    auto text = backend.sql("select pg_get_functiondef('" + infra + ".event_stamp'::regproc)")
                    .at(0)
                    .get<std::string>(0);
    const auto at = text.find(part);
    ASSERT_NE(at, std::string::npos) << part;
    backend.sql(text.replace(at, part.size(), by));
  }

  Backend backend{BackendKind::postgres};
  Platform platform = backend.open();
  std::string infra = backend.schema();
  std::int64_t after = 0;
};

// --- readers

TEST_F(PostgresEventFeed, AnEventThatCommitsLateIsNotMissed) {
  Session late(backend);
  late.run(append("late"));
  append_and_commit("early");
  EXPECT_THAT(by_position(), ElementsAre("early"));
  late.run("commit");
  EXPECT_THAT(by_position(), ElementsAre("late"));
}

TEST_F(PostgresEventFeed, AReaderBySequenceMissesAnEventThatCommitsLate) {
  Session late(backend);
  late.run(append("late"));
  append_and_commit("early");
  EXPECT_THAT(by_sequence(), ElementsAre("early"));
  late.run("commit");
  EXPECT_THAT(by_sequence(), IsEmpty()) << "lost";
}

TEST_F(PostgresEventFeed, AnEventComesAfterTheEventThatItsTransactionHasRead) {
  Session older(backend);
  older.run("select pg_current_xact_id()");
  append_and_commit("cause");
  older.run(append("effect"));
  older.run("commit");
  EXPECT_THAT(by_position(), ElementsAre("cause", "effect"));
}

TEST_F(PostgresEventFeed, AReaderByTransactionIdPutsTheEffectBeforeItsCause) {
  Session older(backend);
  older.run("select pg_current_xact_id()");
  append_and_commit("cause");
  older.run(append("effect"));
  older.run("commit");
  Names found;
  ASSERT_TRUE(eventually([&] {  // the transactions of other tests may end in between
    std::ranges::copy(by_transaction_id(), std::back_inserter(found));
    return found.size() == 2;
  }));
  EXPECT_THAT(found, ElementsAre("effect", "cause"));
}

TEST_F(PostgresEventFeed, AnOpenForeignTransactionDelaysNothing) {
  Session foreign(backend);
  foreign.run("select pg_current_xact_id()");
  append_and_commit("a");
  EXPECT_THAT(by_transaction_id(), IsEmpty()) << "that reader waits for it";
  EXPECT_THAT(by_position(), ElementsAre("a"));
}

TEST_F(PostgresEventFeed, AnAppenderThatIsIdleInItsTransactionDelaysOnlyItsOwnEvents) {
  Session idle(backend);
  idle.run(append("idle"));
  for (const auto* stream : {"a", "b", "c"}) {
    append_and_commit(stream);
    EXPECT_THAT(by_position(), ElementsAre(stream));
  }
  idle.run("commit");
  EXPECT_THAT(by_position(), ElementsAre("idle"));
}

TEST_F(PostgresEventFeed, AnAppendAfterRollbackToASavepointIsFound) {
  Session session(backend);
  session.run("savepoint s");
  session.run(append("undone"));
  session.run("rollback to s");
  append_and_commit("between");
  EXPECT_THAT(by_position(), ElementsAre("between"));
  session.run(append("done"));
  session.run("commit");
  EXPECT_THAT(by_position(), ElementsAre("done"));
}

TEST_F(PostgresEventFeed, PositionsAreReadInEveryIsolationLevel) {
  append_and_commit("a");
  by_position();
  Session reader(backend);
  reader.run("commit");
  reader.run("begin isolation level repeatable read");
  const auto count = "select count(*) from " + infra + ".event_read_all() where stream is not null";
  EXPECT_EQ(reader.run(count), "1");
  append_and_commit("b");
  EXPECT_THAT(by_position(), ElementsAre("b"));
  EXPECT_EQ(reader.run(count), "1") << "one snapshot";
  reader.run("commit");
  reader.run("begin isolation level serializable read only");
  EXPECT_EQ(reader.run(count), "2");
}

/// A transaction that has its id before it stamps. An open transaction with a higher id has drawn a
/// number that the last stamp has seen.
TEST_F(PostgresEventFeed, AStampInATransactionThatHasAnIdLosesNothing) {
  Session old(backend);
  old.run("select pg_current_xact_id()");
  Session late(backend);
  late.run(append("late"));
  platform.events().stamp();
  old.run("select head from " + infra + ".event_stamp()");
  old.run("commit");
  EXPECT_THAT(by_position(), IsEmpty());
  EXPECT_THAT(by_position(), IsEmpty());
  late.run("commit");
  EXPECT_THAT(by_position(), ElementsAre("late"));
}

TEST_F(PostgresEventFeed, HolesOfRolledBackAppendsAreClosed) {
  for (int i = 0; i < 5; ++i) {
    Session session(backend);
    session.run(append("undone"));
    session.run("rollback");
    append_and_commit("done");
  }
  EXPECT_EQ(by_position().size(), 5U);
  EXPECT_TRUE(eventually([&] {  // other tests of the cluster may have open transactions
    platform.events().stamp();
    return backend.number("select (done = '{}' and low = 10)::int::bigint from " + infra +
                          ".event_feed_state") == 1;
  }));
}

TEST_F(PostgresEventFeed, ConsecutiveEventsShareARun) {
  for (int i = 0; i < 20; ++i) {
    append_and_commit("s");
    by_position();
  }
  EXPECT_EQ(backend.number("select count(*) from " + infra + ".event_feed"), 1);
}

// --- the stamper

TEST_F(PostgresEventFeed, OneStamperWorksAtATime) {
  append_and_commit("a");
  Session first(backend);
  EXPECT_EQ(first.run("select head from " + infra + ".event_stamp()"), "1");
  append_and_commit("b");
  Session second(backend);
  EXPECT_EQ(second.run("select head is null from " + infra + ".event_stamp()"), "t");
  first.run("rollback");
  EXPECT_EQ(second.run("select head from " + infra + ".event_stamp()"), "2");
}

TEST_F(PostgresEventFeed, TheStamperNeedsReadCommitted) {
  for (const auto* level : {"repeatable read", "serializable"}) {
    Session session(backend);
    session.run("commit");
    session.run(std::string{"begin isolation level "} + level);
    EXPECT_EQ(session.error_of("select " + infra + ".event_stamp()"), "25001") << level;
  }
}

TEST_F(PostgresEventFeed, ASequenceThatWasNotRestoredIsRefused) {
  append_and_commit("a");
  append_and_commit("b");
  by_position();
  backend.sql("alter sequence " + infra + ".event_no restart");
  Session session(backend);
  EXPECT_EQ(session.error_of("select " + infra + ".event_stamp()"), "55000");
  backend.sql("select setval('" + infra + ".event_no', 2)");
  append_and_commit("c");
  EXPECT_THAT(by_position(), ElementsAre("c"));
}

TEST_F(PostgresEventFeed, ASequenceWithACacheIsRefusedBecauseItLosesEvents) {
  append_and_commit("zero");
  by_position();
  backend.sql("alter sequence " + infra + ".event_no cache 20");
  Session caching(backend);  // draws 2, and keeps 3 to 21
  caching.run(append("first"));
  caching.run("commit");
  Session refused(backend);
  EXPECT_EQ(refused.error_of("select " + infra + ".event_stamp()"), "55000");
  refused.run("rollback");

  change_stamper("v_cache <> 1", "false");
  append_and_commit("second");
  EXPECT_EQ(by_position().size(), 2U);
  ASSERT_TRUE(eventually([&] {
    platform.events().stamp();
    return backend.number("select low from " + infra + ".event_feed_state") == 41;
  }));
  caching.run("begin");
  caching.run(append("third"));
  caching.run("commit");
  EXPECT_THAT(by_position(), IsEmpty()) << "lost";
}

// --- the order of the stamper's steps

/// A transaction that commits between the two steps of the stamper: the question whether all older
/// transactions have ended, and the search for events.
class PostgresStamperOrder : public PostgresEventFeed {
 protected:
  static constexpr auto question =
      "  v_ended := coalesce(v_state.mark_xid <= pg_snapshot_xmin(pg_current_snapshot()), "
      "false);\n";
  const std::string lock = "pg_advisory_xact_lock(hashtext('" + infra + "'))";
  const std::string pause = "  perform " + lock + ";\n";

  /// Returns whether the late event was found.
  bool commits_in_the_pause() {
    Session late(backend);
    late.run(append("late"));
    append_and_commit("early");
    by_position();
    by_position();  // sets the mark
    Session holder(backend);
    holder.run("select " + lock);
    Session stamper(backend);
    auto stamping = stamper.start("select " + infra + ".event_stamp()");
    EXPECT_TRUE(eventually([&] {
      return backend.number(
                 "select count(*) from pg_stat_activity where wait_event = 'advisory'"
                 " and pid = " +
                 std::to_string(stamper.pid())) == 1;
    }));
    late.run("commit");
    holder.run("commit");
    stamping.get();
    stamper.run("commit");
    bool found = !by_position().empty();
    backend.sql("select " + infra + ".event_stamp()");
    return found || !by_position().empty();
  }
};

TEST_F(PostgresStamperOrder, TheQuestionComesBeforeTheSearch) {
  change_stamper(question, std::string{question} + pause);
  EXPECT_TRUE(commits_in_the_pause());
}

TEST_F(PostgresStamperOrder, AQuestionAfterTheSearchLosesAnEvent) {
  change_stamper(question, "");
  const std::string searched = "    into v_nos, v_counts, stamped, v_got from runs r;\n";
  change_stamper(searched, searched + pause + question);
  // While other tests of the cluster have older transactions, it is not asked at all.
  EXPECT_TRUE(eventually([&] { return !commits_in_the_pause(); }));
}

}  // namespace
}  // namespace dovetail::testing
