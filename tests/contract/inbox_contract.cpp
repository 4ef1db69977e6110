// The inbox as a guard: which caller may process a message, and what the inbox remembers.
#include <atomic>
#include <set>
#include <thread>

#include "storage/inbox_store.hpp"
#include "support/eventually.hpp"
#include "support/inbox_test.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class InboxContract : public InboxTest {};
DOVETAIL_CONTRACT(InboxContract);

// --- begin and mark

TEST_P(InboxContract, OfTenConcurrentCallersExactlyOneProceeds) {
  for (int round = 0; round < 5; ++round) {
    const auto id = "m" + std::to_string(round);
    std::atomic<int> started{0};
    std::atomic<int> in_progress{0};
    {
      std::vector<std::jthread> callers;
      for (int i = 0; i < 10; ++i) {
        callers.emplace_back([&] {
          const auto begun = inbox.try_begin("s", id);
          started += begun.outcome == BeginOutcome::started;
          in_progress += begun.outcome == BeginOutcome::in_progress;
        });
      }
    }
    EXPECT_EQ(started, 1);
    EXPECT_EQ(in_progress, 9);
    EXPECT_EQ(found(id).sightings, 10);
    EXPECT_EQ(found(id).attempts, 1) << "sightings cost no attempt";
  }
}

TEST_P(InboxContract, BeginningGivesATicketThatMarks) {
  const auto before = backend.now();
  const auto begun = inbox.try_begin("s", "m", {.lease = seconds{30}});
  ASSERT_TRUE(begun.started());
  EXPECT_EQ(begun.ticket.source, "s");
  EXPECT_EQ(begun.ticket.message_id, "m");
  EXPECT_EQ(begun.ticket.attempts, 1);
  EXPECT_GE(begun.ticket.lease_until, before + seconds{30});
  EXPECT_EQ(status_of("m"), InboxStatus::processing);
  EXPECT_EQ(inbox.try_begin("s", "m").outcome, BeginOutcome::in_progress);
  EXPECT_TRUE(inbox.mark_processed(begun.ticket));
  EXPECT_EQ(status_of("m"), InboxStatus::processed);
  EXPECT_GE(found("m").processed_at, before);
  EXPECT_EQ(inbox.try_begin("s", "m").outcome, BeginOutcome::processed);
  EXPECT_FALSE(inbox.mark_processed(begun.ticket)) << "once";
  EXPECT_EQ(inbox.try_begin("another source", "m").outcome, BeginOutcome::started);
}

TEST_P(InboxContract, ACrashedOneIsFollowedByAnotherAndCanMarkNothing) {
  const auto first = inbox.try_begin("s", "m", {.lease = seconds{30}});
  backend.advance(seconds{29});
  EXPECT_EQ(inbox.try_begin("s", "m").outcome, BeginOutcome::in_progress);
  backend.advance(seconds{2});
  EXPECT_FALSE(inbox.mark_processed(first.ticket)) << "its lease has ended";
  EXPECT_FALSE(inbox.renew(first.ticket, seconds{30}));
  const auto second = inbox.try_begin("s", "m");
  ASSERT_TRUE(second.started());
  EXPECT_GT(second.ticket.epoch, first.ticket.epoch);
  EXPECT_EQ(second.ticket.attempts, 2);
  EXPECT_FALSE(inbox.mark_processed(first.ticket));
  EXPECT_FALSE(inbox.mark_dead(first.ticket, "too late"));
  EXPECT_FALSE(inbox.release(first.ticket));
  EXPECT_TRUE(inbox.mark_processed(second.ticket));
}

TEST_P(InboxContract, AMarkThatIsMadeAgainKnowsItsOwn) {
  const auto begun = inbox.try_begin("s", "m");
  ASSERT_TRUE(inbox.mark_processed(begun.ticket));
  const auto database = backend.open_database();
  const storage::InboxFence mine{begun.ticket.owner, begun.ticket.epoch};
  const storage::InboxFence others{OwnerToken::generate(), begun.ticket.epoch};
  database->write({}, [&](storage::WriteSession& session) {
    auto& store = database->store<storage::InboxStore>();
    EXPECT_TRUE(store.is_marked(session, {"s", "m"}, InboxStatus::processed, mine));
    EXPECT_TRUE(store.is_marked(session, {"s", "m"}, InboxStatus::processed, std::nullopt));
    EXPECT_FALSE(store.is_marked(session, {"s", "m"}, InboxStatus::processed, others));
    EXPECT_FALSE(store.is_marked(session, {"s", "m"}, InboxStatus::dead_letter, mine));
  });
}

TEST_P(InboxContract, RenewingKeepsItAndNeverShortens) {
  const auto begun = inbox.try_begin("s", "m", {.lease = seconds{30}});
  const auto until = inbox.renew(begun.ticket, minutes{5});
  ASSERT_TRUE(until);
  EXPECT_GT(*until, begun.ticket.lease_until);
  EXPECT_EQ(inbox.renew(begun.ticket, seconds{1}), until);
  backend.advance(minutes{4});
  EXPECT_EQ(inbox.try_begin("s", "m").outcome, BeginOutcome::in_progress);
  EXPECT_TRUE(inbox.mark_processed(begun.ticket));
}

TEST_P(InboxContract, WhatIsReleasedMayBeBegunAtOnce) {
  const auto begun = inbox.try_begin("s", "m");
  EXPECT_TRUE(inbox.release(begun.ticket, "no luck"));
  EXPECT_EQ(status_of("m"), InboxStatus::seen);
  EXPECT_EQ(found("m").last_error, "no luck");
  const auto again = inbox.try_begin("s", "m");
  EXPECT_TRUE(again.started());
  EXPECT_EQ(again.ticket.attempts, 2);
  EXPECT_FALSE(inbox.mark_processed(begun.ticket)) << "of the ticket that was given back";
}

TEST_P(InboxContract, ADeadOneIsNotBegun) {
  const auto begun = inbox.try_begin("s", "m");
  EXPECT_TRUE(inbox.mark_dead(begun.ticket, "poison"));
  EXPECT_EQ(inbox.try_begin("s", "m").outcome, BeginOutcome::dead_letter);
  EXPECT_EQ(found("m").last_error, "poison");
  EXPECT_FALSE(inbox.already_processed("s", "m")) << "that it is not";
}

TEST_P(InboxContract, BeginAndMarkInATransactionCommitWithItsEffect) {
  const auto table = effects_table();
  {
    auto transaction = platform.begin();
    const auto begun = inbox.try_begin(transaction, "s", "m");
    ASSERT_TRUE(begun.started());
    transaction.execute("insert into " + table + " (effect) values ('e')");
    EXPECT_TRUE(inbox.mark_processed(transaction, begun.ticket));
    transaction.rollback();
  }
  EXPECT_FALSE(inbox.find("s", "m")) << "nothing of it is left";
  {
    UserConnection user(backend);
    user.execute(backend.is_postgres() ? "begin" : "begin immediate");
    auto transaction = user.borrow();
    const auto begun = inbox.try_begin(transaction, "s", "m");
    ASSERT_TRUE(begun.started());
    transaction.execute("insert into " + table + " (effect) values ('e')");
    EXPECT_TRUE(inbox.mark_processed(transaction, begun.ticket));
    user.execute("commit");
  }
  EXPECT_EQ(inbox.try_begin("s", "m").outcome, BeginOutcome::processed);
  EXPECT_EQ(backend.number("select count(*) from " + table), 1);
}

// --- hashes

TEST_P(InboxContract, AKnownIdWithAnotherContentIsReportedAndLogged) {
  auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  auto other = Platform::open(backend.url(), options);
  const auto a = hash_of('a');
  const auto b = hash_of('b');
  EXPECT_FALSE(inbox.already_processed("s", "m", a));
  EXPECT_EQ(other.inbox().try_begin("s", "m", {.hash = b}).outcome, BeginOutcome::hash_mismatch);
  EXPECT_THROW(other.inbox().already_processed("s", "m", b), HashMismatch);
  EXPECT_EQ(
      other.inbox()
          .enqueue(
              {.topic = "t", .source = "s", .message_id = "m", .hash = Bytes(b.begin(), b.end())})
          .outcome,
      InboxEnqueueOutcome::hash_mismatch);
  EXPECT_EQ(other.inbox().process("s", "m", [](Transaction&) { FAIL(); }, {.hash = b}),
            ProcessOutcome::hash_mismatch);
  EXPECT_EQ(log->count("inbox.hash_mismatch"), 4);
  EXPECT_EQ(status_of("m"), InboxStatus::seen);
  EXPECT_EQ(found("m").hash, Bytes(a.begin(), a.end()));
  EXPECT_TRUE(inbox.try_begin("s", "m", {.hash = a}).started());
}

TEST_P(InboxContract, WithoutAHashNothingIsComparedAndTheFirstOneCounts) {
  EXPECT_FALSE(inbox.already_processed("s", "m"));
  EXPECT_FALSE(inbox.already_processed("s", "m", hash_of('a')));
  EXPECT_FALSE(inbox.already_processed("s", "m"));
  EXPECT_THROW(inbox.already_processed("s", "m", hash_of('b')), HashMismatch);
}

// --- the calls of the specification

TEST_P(InboxContract, TheCallsOfTheSpecificationGoThroughALife) {
  EXPECT_FALSE(inbox.already_processed("s", "m"));
  EXPECT_EQ(status_of("m"), InboxStatus::seen);
  EXPECT_TRUE(inbox.mark_processing("s", "m"));
  EXPECT_FALSE(inbox.already_processed("s", "m"));
  EXPECT_TRUE(inbox.mark_processing("s", "m")) << "another attempt";
  EXPECT_EQ(found("m").attempts, 2);
  EXPECT_EQ(inbox.try_begin("s", "m").outcome, BeginOutcome::in_progress);
  EXPECT_TRUE(inbox.mark_processed("s", "m"));
  EXPECT_TRUE(inbox.already_processed("s", "m"));
  EXPECT_FALSE(inbox.mark_processed("s", "m"));
  EXPECT_FALSE(inbox.mark_processing("s", "m"));
  EXPECT_FALSE(inbox.mark_dead("s", "m"));
  EXPECT_EQ(found("m").sightings, 4);
  EXPECT_GE(found("m").last_seen_at, found("m").first_seen_at);
}

TEST_P(InboxContract, AProcessingThatEndedInACrashMayBeTakenOverAfterItsLease) {
  EXPECT_TRUE(inbox.mark_processing("s", "m"));
  backend.advance(minutes{6});
  const auto begun = inbox.try_begin("s", "m");
  EXPECT_TRUE(begun.started());
  EXPECT_FALSE(inbox.mark_processing("s", "m")) << "somebody holds a ticket";
  EXPECT_TRUE(inbox.mark_processed(begun.ticket));
}

TEST_P(InboxContract, AMessageWhoseProcessingNeverEndsIsGivenUpAtTheLimit) {
  auto options = backend.options();
  options.inbox.queue.max_attempts = 3;
  const auto log = std::make_shared<RecordedLines>();
  options.log_sink = log;
  auto limited = Platform::open(backend.url(), options);
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_TRUE(limited.inbox().mark_processing("s", "m")) << attempt;
  }
  EXPECT_FALSE(limited.inbox().mark_processing("s", "m")) << "the last attempt still has a lease";
  EXPECT_EQ(status_of("m"), InboxStatus::processing);
  backend.advance(minutes{6});
  {
    auto transaction = limited.begin();
    EXPECT_FALSE(limited.inbox().mark_processing(transaction, "s", "m"));
    transaction.rollback();
  }
  EXPECT_EQ(log->count("inbox.given_up"), 0);
  EXPECT_FALSE(limited.inbox().mark_processing("s", "m"));
  EXPECT_EQ(status_of("m"), InboxStatus::dead_letter);
  EXPECT_EQ(found("m").attempts, 3);
  EXPECT_EQ(log->count("inbox.given_up"), 1);
  EXPECT_FALSE(limited.inbox().mark_processing("s", "m"));
}

TEST_P(InboxContract, MarksAlsoKnowMessagesThatWereNeverSeen) {
  EXPECT_TRUE(inbox.mark_processed("s", "a"));
  EXPECT_TRUE(inbox.mark_dead("s", "b", "of no use"));
  EXPECT_TRUE(inbox.already_processed("s", "a"));
  EXPECT_EQ(inbox.try_begin("s", "b").outcome, BeginOutcome::dead_letter);
  EXPECT_TRUE(inbox.mark_processed("s", "b")) << "somebody did it by hand";
}

TEST_P(InboxContract, AllOfThemTakeEffectWithTheCallersTransaction) {
  const auto act = [&](Transaction& transaction) {
    EXPECT_FALSE(inbox.already_processed(transaction, "s", "a"));
    EXPECT_TRUE(inbox.mark_processing(transaction, "s", "b"));
    EXPECT_TRUE(inbox.mark_processed(transaction, "s", "c"));
    EXPECT_TRUE(inbox.mark_dead(transaction, "s", "d", "why"));
    const auto begun = inbox.try_begin(transaction, "s", "e");
    EXPECT_TRUE(inbox.mark_dead(transaction, begun.ticket, "why"));
  };
  {
    auto transaction = platform.begin();
    act(transaction);
  }
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("inbox_guard")), 0);
  auto transaction = platform.begin();
  act(transaction);
  transaction.commit();
  EXPECT_EQ(status_of("a"), InboxStatus::seen);
  EXPECT_EQ(status_of("b"), InboxStatus::processing);
  EXPECT_EQ(status_of("c"), InboxStatus::processed);
  EXPECT_EQ(status_of("d"), InboxStatus::dead_letter);
  EXPECT_EQ(status_of("e"), InboxStatus::dead_letter);
}

// --- process

TEST_P(InboxContract, ProcessHandlesOnceAndMarksWithTheEffect) {
  const auto table = effects_table();
  const auto handle = [&](Transaction& transaction) {
    transaction.execute("insert into " + table + " (effect) values ('e')");
    EXPECT_THROW(transaction.commit(), InvalidOperation);
  };
  EXPECT_EQ(inbox.process("s", "m", handle), ProcessOutcome::handled);
  EXPECT_EQ(inbox.process("s", "m", handle), ProcessOutcome::processed);
  EXPECT_EQ(backend.number("select count(*) from " + table), 1);
  EXPECT_EQ(status_of("m"), InboxStatus::processed);
  EXPECT_EQ(found("m").sightings, 2);
}

TEST_P(InboxContract, AHandlerThatThrowsLeavesOnlyTheNoteOfItsAttempt) {
  const auto table = effects_table();
  const auto fail = [&](Transaction& transaction) {
    transaction.execute("insert into " + table + " (effect) values ('e')");
    throw std::runtime_error("not today");
  };
  for (int attempt = 1; attempt < 3; ++attempt) {
    EXPECT_THROW(inbox.process("s", "m", fail, {.max_attempts = 3}), std::runtime_error);
    EXPECT_EQ(status_of("m"), InboxStatus::seen);
    EXPECT_EQ(found("m").attempts, attempt);
    EXPECT_EQ(found("m").last_error, "not today");
  }
  EXPECT_THROW(inbox.process("s", "m", fail, {.max_attempts = 3}), std::runtime_error);
  EXPECT_EQ(status_of("m"), InboxStatus::dead_letter);
  EXPECT_EQ(inbox.process("s", "m", fail, {.max_attempts = 3}), ProcessOutcome::dead_letter);
  EXPECT_EQ(backend.number("select count(*) from " + table), 0);

  const auto give_up = [](Transaction&) { throw PermanentFailure("never"); };
  EXPECT_THROW(inbox.process("s", "n", give_up), PermanentFailure);
  EXPECT_EQ(status_of("n"), InboxStatus::dead_letter);
}

TEST_P(InboxContract, ProcessLeavesToOthersWhatTheyHaveBegun) {
  const auto begun = inbox.try_begin("s", "m");
  EXPECT_EQ(inbox.process("s", "m", [](Transaction&) { FAIL(); }), ProcessOutcome::in_progress);
  EXPECT_TRUE(inbox.mark_processed(begun.ticket));
}

TEST_P(InboxContract, ConcurrentProcessingOfOneMessageHasOneEffect) {
  const auto table = effects_table();
  std::atomic<int> handled{0};
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&] {
        const auto outcome = inbox.process("s", "m", [&](Transaction& transaction) {
          transaction.execute("insert into " + table + " (effect) values ('e')");
        });
        EXPECT_TRUE(outcome == ProcessOutcome::handled || outcome == ProcessOutcome::processed);
        handled += outcome == ProcessOutcome::handled;
      });
    }
  }
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(backend.number("select count(*) from " + table), 1);
}

TEST_P(InboxContract, AHandlerThatOutlivesTheLeaseOfItsTryIsCountedOnce) {
  EXPECT_EQ(
      inbox.process("s", "m", [&](Transaction&) { backend.advance(std::chrono::minutes{10}); }),
      ProcessOutcome::handled);
  EXPECT_EQ(found("m").attempts, 1);
  const auto fail = [&](Transaction&) {
    backend.advance(std::chrono::minutes{10});
    throw std::runtime_error("not today");
  };
  EXPECT_THROW(inbox.process("s", "n", fail), std::runtime_error);
  EXPECT_EQ(status_of("n"), InboxStatus::seen);
  EXPECT_EQ(found("n").attempts, 1);
  EXPECT_EQ(found("n").sightings, 1);
}

TEST_P(InboxContract, AFailureOfTheDatabaseCostsNoAttempt) {
  int calls = 0;
  const auto fail = [&](Transaction&) {
    ++calls;
    throw Error({ErrorKind::serialization, "40001", "of the handler"}, "no luck");
  };
  EXPECT_THROW(inbox.process("s", "m", fail, {.max_attempts = 1}), Error);
  EXPECT_GT(calls, 1);
  EXPECT_EQ(status_of("m"), InboxStatus::seen);
  EXPECT_EQ(found("m").attempts, 0);
  EXPECT_EQ(inbox.process("s", "m", [](Transaction&) {}), ProcessOutcome::handled);
}

TEST_P(InboxContract, AMessageWhoseLeaseIsLostAtItsLastAttemptIsDead) {
  const auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  options.inbox.queue.max_attempts = 3;
  auto other = Platform::open(backend.url(), options);
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto begun = other.inbox().try_begin("s", "m", {.lease = std::chrono::seconds{1}});
    ASSERT_TRUE(begun.started()) << attempt;
    EXPECT_EQ(begun.ticket.attempts, attempt);
    EXPECT_EQ(other.inbox().try_begin("s", "m").outcome, BeginOutcome::in_progress);
    backend.advance(std::chrono::seconds{2});
  }
  EXPECT_EQ(other.inbox().try_begin("s", "m").outcome, BeginOutcome::dead_letter);
  EXPECT_EQ(other.inbox().try_begin("s", "m").outcome, BeginOutcome::dead_letter);
  EXPECT_EQ(other.inbox().process("s", "m", [](Transaction&) { FAIL(); }),
            ProcessOutcome::dead_letter);
  EXPECT_EQ(status_of("m"), InboxStatus::dead_letter);
  EXPECT_EQ(found("m").last_error, "the lease expired on the last attempt");
  EXPECT_EQ(log->count("inbox.given_up"), 1);
  EXPECT_EQ(other.inbox().replay({.message_id = "m"}), 1U);
  EXPECT_TRUE(other.inbox().try_begin("s", "m").started());
}

TEST_P(InboxContract, ABeginMayHaveItsOwnLimitOfAttempts) {
  EXPECT_THROW((void)inbox.try_begin("s", "m", {.max_attempts = 0}), std::out_of_range);
  const BeginOptions once{.lease = std::chrono::seconds{1}, .max_attempts = 1};
  EXPECT_TRUE(inbox.try_begin("s", "m", once).started());
  backend.advance(std::chrono::seconds{2});
  EXPECT_EQ(inbox.try_begin("s", "m", once).outcome, BeginOutcome::dead_letter);
  auto begun = inbox.try_begin("s", "n", once);
  EXPECT_TRUE(inbox.release(begun.ticket, "later"));
  EXPECT_TRUE(inbox.try_begin("s", "n", once).started()) << "it was given back, not lost";
}

TEST_P(InboxContract, ATransactionThatRollsBackLogsNoDeath) {
  const auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  auto other = Platform::open(backend.url(), options);
  {
    auto transaction = other.begin();
    EXPECT_TRUE(other.inbox().mark_dead(transaction, "s", "m", "poison"));
    transaction.rollback();
  }
  EXPECT_EQ(log->count("inbox.given_up"), 0);
  auto transaction = other.begin();
  EXPECT_TRUE(other.inbox().mark_dead(transaction, "s", "m", "poison"));
  EXPECT_EQ(log->count("inbox.given_up"), 0);
  transaction.commit();
  EXPECT_EQ(log->count("inbox.given_up"), 1);
}

TEST_P(InboxContract, AReplayMayHaveAReasonAndADelay) {
  kill("q");
  inbox.mark_dead("s", "g", "poison");
  EXPECT_THROW(inbox.replay({}, {.delay = milliseconds{-1}}), std::out_of_range);
  EXPECT_THROW(inbox.replay({}, {.reason = "\xff"}), std::invalid_argument);
  EXPECT_EQ(inbox.replay({}, {.reason = "the bank is back", .delay = std::chrono::minutes{1}}), 2U);
  EXPECT_EQ(found("q").last_error, "the bank is back");
  EXPECT_EQ(found("g").last_error, "the bank is back");
  EXPECT_EQ(status_of("q"), InboxStatus::queued);
  EXPECT_THAT(claim(), IsEmpty());
  backend.advance(std::chrono::minutes{2});
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(InboxContract, AFailedTryKeepsTheHash) {
  const auto a = hash_of('a');
  const auto fail = [](Transaction&) { throw std::runtime_error("not today"); };
  EXPECT_THROW(inbox.process("s", "m", fail, {.hash = a}), std::runtime_error);
  EXPECT_EQ(inbox.process("s", "m", fail, {.hash = hash_of('b')}), ProcessOutcome::hash_mismatch);
}

// --- limits

TEST_P(InboxContract, WhatIsBeyondALimitIsRefusedAndNothingIsStored) {
  const std::string long_source(65, 's');
  const std::string long_id(256, 'm');
  const auto short_hash = std::vector<std::byte>(31);
  EXPECT_THROW((void)inbox.try_begin("", "m"), std::invalid_argument);
  EXPECT_THROW((void)inbox.try_begin("s", ""), std::invalid_argument);
  EXPECT_THROW((void)inbox.try_begin(long_source, "m"), std::invalid_argument);
  EXPECT_THROW((void)inbox.try_begin("s", long_id), std::invalid_argument);
  EXPECT_THROW((void)inbox.try_begin("s", "\xff"), std::invalid_argument);
  EXPECT_THROW((void)inbox.try_begin("s", "m", {.hash = short_hash}), std::invalid_argument);
  EXPECT_THROW((void)inbox.try_begin("s", "m", {.lease = milliseconds{1}}), std::out_of_range);
  EXPECT_THROW(inbox.already_processed(long_source, "m"), std::invalid_argument);
  EXPECT_THROW(inbox.mark_processing("s", long_id), std::invalid_argument);
  EXPECT_THROW(inbox.mark_processed("s", long_id), std::invalid_argument);
  EXPECT_THROW(inbox.mark_dead("s", long_id), std::invalid_argument);
  EXPECT_THROW((void)inbox.mark_processed(InboxTicket{.source = "s", .message_id = "m"}),
               std::invalid_argument);
  EXPECT_THROW(inbox.process("s", "m", {}), std::invalid_argument);
  EXPECT_THROW(inbox.enqueue({.topic = "t", .source = long_source, .message_id = "m"}),
               std::invalid_argument);
  EXPECT_THROW(inbox.enqueue({.topic = "", .source = "s", .message_id = "m"}),
               std::invalid_argument);
  EXPECT_THROW(
      inbox.enqueue(
          {.topic = "t", .source = "s", .message_id = "m", .headers = {{"dovetail-x", ""}}}),
      std::invalid_argument);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("inbox_guard")), 0);
  try {
    (void)inbox.try_begin("s", long_id);
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("message_id must not exceed 255 characters"));
  }
  EXPECT_TRUE(inbox.try_begin(std::string(64, 's'), std::string(255, 'm')).started());
  EXPECT_TRUE(inbox.try_begin("ä'; drop table \"x", "m\n\t'\"").started()) << "any text";
}

// --- operating

TEST_P(InboxContract, CountsAndStuckOnes) {
  inbox.already_processed("s", "seen");
  (void)inbox.try_begin("s", "old", {.lease = seconds{10}});
  (void)inbox.try_begin("s", "new", {.lease = hours{10}});
  inbox.mark_processed("s", "processed");
  inbox.mark_dead("s", "dead");
  put("queued");
  backend.advance(minutes{10});
  const auto counts = inbox.counts();
  EXPECT_EQ(counts.seen, 1);
  EXPECT_EQ(counts.processing, 2);
  EXPECT_EQ(counts.overdue, 1);
  EXPECT_EQ(counts.processed, 1);
  EXPECT_EQ(counts.dead_letters, 1);
  EXPECT_EQ(counts.queue.ready, 1);
  ASSERT_THAT(inbox.stuck(minutes{5}), SizeIs(1));
  EXPECT_EQ(inbox.stuck(minutes{5}).front().message_id, "old");
  EXPECT_THAT(inbox.stuck(minutes{20}), IsEmpty());
}

TEST_P(InboxContract, WhatIsOldIsForgottenAndNewWhenItComesAgain) {
  inbox.mark_processed("s", "processed");
  inbox.mark_dead("s", "dead");
  inbox.already_processed("s", "seen");
  (void)inbox.try_begin("s", "begun", {.lease = hours{24}});
  kill("letter");
  put("queued");
  backend.advance(hours{20});
  inbox.already_processed("s", "seen again");
  EXPECT_EQ(inbox.purge(hours{10}), 3U);
  EXPECT_FALSE(inbox.find("s", "processed"));
  EXPECT_FALSE(inbox.find("s", "dead"));
  EXPECT_FALSE(inbox.find("s", "seen"));
  EXPECT_EQ(status_of("seen again"), InboxStatus::seen);
  EXPECT_EQ(status_of("begun"), InboxStatus::processing) << "its lease has not ended";
  EXPECT_EQ(status_of("queued"), InboxStatus::queued);
  EXPECT_EQ(status_of("letter"), InboxStatus::dead_letter) << "it is still to be seen";
  EXPECT_TRUE(inbox.try_begin("s", "processed").started());
}

TEST_P(InboxContract, AStartedPlatformPurgesOldMessagesAndWarnsOfStuckOnes) {
  auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  options.inbox.remember = hours{2};
  options.worker.lease = seconds{1};  // and the interval of housekeeping
  inbox.mark_processed("s", "old");
  (void)inbox.try_begin("s", "stuck", {.lease = seconds{10}});
  backend.advance(hours{3});
  inbox.already_processed("s", "stuck");
  auto worker = Platform::open(backend.url(), options);
  worker.start();
  EXPECT_TRUE(eventually([&] { return !inbox.find("s", "old") && log->count("inbox.stuck") > 0; }));
}

TEST_P(InboxContract, ADeadLetterThatWasPurgedMayStillBeReplayed) {
  kill("m");
  EXPECT_EQ(inbox.queue().purge_dead_letters(DeadLetterFilter{}), 1U);
  EXPECT_EQ(status_of("m"), InboxStatus::dead_letter);
  EXPECT_EQ(inbox.replay({.message_id = "m"}), 1U);
  EXPECT_EQ(status_of("m"), InboxStatus::seen);
  EXPECT_TRUE(put("m").stored());
}

TEST_P(InboxContract, PurgeDeletesManyMessagesInSmallTransactions) {
  std::vector<InboxRequest> requests(2'500);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i] = {.topic = "t", .source = "s", .message_id = std::to_string(i)};
  }
  inbox.enqueue_many(requests);
  EXPECT_EQ(inbox.queue().ack(owner, claims(10'000)), 2'500U);
  backend.advance(hours{1});
  EXPECT_EQ(inbox.purge(minutes{30}), 2'500U);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("inbox_guard")), 0);
}

TEST_P(InboxContract, DeadLettersAreListedReplayedAndPurged) {
  kill("a", "t1", "no such order");
  kill("b", "t2");
  inbox.mark_dead("s", "c", "poison");
  inbox.mark_dead("r", "d");
  const auto ids = [&](const InboxDeadLetterFilter& filter, const InboxPage& page = {}) {
    std::vector<std::string> found;
    for (const auto& entry : inbox.dead_letters(filter, page)) found.push_back(entry.message_id);
    return found;
  };
  EXPECT_THAT(ids({}), ElementsAre("d", "a", "b", "c")) << "in the order of sources and ids";
  EXPECT_THAT(ids({.source = "s"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(ids({.topic = "t1"}), ElementsAre("a"));
  EXPECT_THAT(ids({.message_id = "c"}), ElementsAre("c"));
  EXPECT_THAT(ids({}, {.after_source = "s", .after_message_id = "a", .size = 1}), ElementsAre("b"));
  EXPECT_EQ(inbox.dead_letters({.topic = "t1"}).front().last_error, "no such order");
  EXPECT_EQ(inbox.dead_letters({.topic = "t1"}).front().topic, "t1");

  EXPECT_EQ(inbox.replay({.topic = "t1"}), 1U);
  EXPECT_EQ(status_of("a"), InboxStatus::queued);
  EXPECT_EQ(found("a").attempts, 0);
  EXPECT_EQ(found("a").last_error, "no such order") << "the reason is kept";
  EXPECT_EQ(inbox.replay({.message_id = "c"}), 1U);
  EXPECT_EQ(status_of("c"), InboxStatus::seen);
  EXPECT_EQ(found("c").last_error, "poison");
  EXPECT_TRUE(inbox.try_begin("s", "c").started());
  const auto again = claim();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(InboxMessage::from(again.front().message).message_id, "a");

  EXPECT_EQ(inbox.purge_dead_letters({}), 2U);
  EXPECT_THAT(ids({}), IsEmpty());
  EXPECT_THAT(inbox.queue().dead_letters(), IsEmpty());
  EXPECT_TRUE(put("b").stored()) << "it is new";
}

}  // namespace
}  // namespace dovetail::testing
