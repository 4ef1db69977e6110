// Settlements of claimed messages (abandon, fail, snooze, renew, reap), and conditions that prevent
// a claim.
#include <random>
#include <thread>

#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SettleContract : public OutboxTest {
 protected:
  /// Settles the claims in every way, and returns the number of claims that took effect.
  std::size_t settle_all(OwnerToken who, const std::vector<Claim>& claims) {
    return outbox.ack(who, claims) + outbox.abandon(who, claims) + outbox.fail(who, claims, "no") +
           outbox.snooze(who, claims) + outbox.renew(who, claims, seconds{60});
  }
};
DOVETAIL_CONTRACT(SettleContract);

// --- abandon

TEST_P(SettleContract, OBX_035_OBX_036_OBX_041_AbandonGivesTheLeaseBackAndCharges) {
  const auto claims = claimed_one();
  EXPECT_EQ(outbox.abandon(owner, claims, {.error = "smtp: 451"}), 1U);
  EXPECT_EQ(
      backend.number(
          "select count(*) from " + backend.table("outbox_messages") +
          " where status = 0 and locked_until is null and owner_token is null and retry_count = 1"),
      1);
  EXPECT_EQ(found(MessageId{claims[0].id.uuid()}).last_error, "smtp: 451");
}

TEST_P(SettleContract,
       OBX_037_OBX_040_OBX_061_OBX_062_AnAbandonedMessageComesBackAfterAnExponentialBackoff) {
  auto claims = claimed_one();
  for (const int expected : {2, 4, 8, 16, 32, 60, 60}) {
    const milliseconds wait = seconds{expected};
    ASSERT_EQ(outbox.abandon(owner, claims), 1U);
    backend.advance(wait * 8 / 10);
    EXPECT_THAT(claim(), IsEmpty()) << "before " << expected << " s less a tenth";
    backend.advance(wait * 2 / 10);
    claims = claims_of(claim(1, hours{1}));
    ASSERT_THAT(claims, SizeIs(1)) << "after " << expected << " s";
  }
}

TEST_P(SettleContract, AbandonTakesADelayOfTheCallers) {
  ASSERT_EQ(outbox.abandon(owner, claimed_one(), {.delay = milliseconds{0}}), 1U);
  const auto claimed = claim(1, hours{2});
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.attempts, 1);
  ASSERT_EQ(outbox.abandon(owner, claims_of(claimed), {.delay = hours{1}}), 1U);
  backend.advance(std::chrono::minutes{59});
  EXPECT_THAT(claim(), IsEmpty());
  backend.advance(std::chrono::minutes{2});
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(SettleContract, OBX_064_OBX_065_TheTenthFailedTryMakesADeadLetter) {
  auto claims = claimed_one();
  for (int attempt = 1; attempt <= 10; ++attempt) {
    ASSERT_EQ(outbox.abandon(owner, claims,
                             {.error = "try " + std::to_string(attempt), .delay = milliseconds{0}}),
              1U);
    claims = claims_of(claim());
    ASSERT_EQ(claims.size(), attempt < 10 ? 1U : 0U) << attempt;
  }
  const auto dead = outbox.dead_letters();
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_EQ(dead[0].message.attempts, 10);
  EXPECT_EQ(dead[0].last_error, "try 10");
}

TEST_P(SettleContract, MaxAttemptsMayBeGivenPerCallAndPerQueue) {
  ASSERT_EQ(outbox.abandon(owner, claimed_one(), {.max_attempts = 1}), 1U);
  EXPECT_EQ(with_status(MessageStatus::failed), 1);
  auto options = backend.options();
  options.outbox.max_attempts = 2;
  auto strict = Platform::open(backend.url(), options);
  auto claims = claimed_one();
  ASSERT_EQ(strict.outbox().abandon(owner, claims, {.delay = milliseconds{0}}), 1U);
  EXPECT_EQ(with_status(MessageStatus::failed), 1);
  ASSERT_EQ(strict.outbox().abandon(owner, claims_of(claim()), {.delay = milliseconds{0}}), 1U);
  EXPECT_EQ(with_status(MessageStatus::failed), 2);
}

TEST_P(SettleContract, OneAbandonMayHoldMessagesThatFailAndMessagesThatComeBack) {
  outbox.enqueue({.topic = "old"});
  ASSERT_EQ(outbox.abandon(owner, claims_of(claim()), {.delay = milliseconds{0}}), 1U);
  outbox.enqueue({.topic = "new"});
  const auto claims = claims_of(claim());
  ASSERT_THAT(claims, SizeIs(2));
  EXPECT_EQ(
      outbox.abandon(owner, claims, {.error = "both", .delay = milliseconds{0}, .max_attempts = 2}),
      2U);
  EXPECT_EQ(with_status(MessageStatus::failed), 1);
  EXPECT_EQ(with_status(MessageStatus::ready), 1);
}

// --- fail

TEST_P(SettleContract,
       OBX_042_OBX_043_OBX_048_OBX_025_AFailedMessageIsKeptWithItsErrorAndNeverClaimed) {
  const auto id = failed_one("t", "no such address");
  const auto dead = found(id);
  EXPECT_EQ(dead.status, MessageStatus::failed);
  EXPECT_EQ(dead.last_error, "no such address");
  EXPECT_EQ(dead.processed_by, owner);
  ASSERT_TRUE(dead.processed_at.has_value());
  backend.advance(hours{48});
  EXPECT_THAT(claim(), IsEmpty());
}

TEST_P(SettleContract, LongErrorsAreCutAtACharacter) {
  std::string error;
  while (error.size() < 10'000) error += "ä";
  const auto id = failed_one("t", "x" + error);
  const auto kept = found(id).last_error.value();
  EXPECT_LE(kept.size(), 2048U);
  EXPECT_GE(kept.size(), 2046U);
  EXPECT_EQ(kept.back(), error.back());
}

// --- which owner may settle

TEST_P(SettleContract, OBX_038_OBX_039_OBX_044_OBX_045_OnlyTheOwnerOfALiveClaimSettlesIt) {
  const auto claims = claimed_one();
  EXPECT_EQ(settle_all(OwnerToken::generate(), claims), 0U) << "another owner";
  EXPECT_EQ(settle_all(owner, {{claims[0].id, claims[0].epoch + 1}}), 0U) << "another epoch";
  EXPECT_EQ(settle_all(owner, {{claims[0].id, claims[0].epoch - 1}}), 0U) << "an older epoch";
  EXPECT_EQ(settle_all(owner, {{MessageId::generate(), 1}}), 0U) << "an unknown id";
  EXPECT_EQ(settle_all(owner, {}), 0U);
  EXPECT_EQ(with_status(MessageStatus::in_progress), 1);
  backend.advance(seconds{31});
  EXPECT_EQ(settle_all(owner, claims), 0U) << "past its lease";
  EXPECT_THAT(claim_as(OwnerToken::generate()), SizeIs(1));
  EXPECT_EQ(settle_all(owner, claims), 0U) << "taken over";
}

TEST_P(SettleContract, WhatIsSettledIsSettledOnce) {
  for (const auto& first : std::vector<std::function<std::size_t(const std::vector<Claim>&)>>{
           [&](const auto& claims) { return outbox.ack(owner, claims); },
           [&](const auto& claims) { return outbox.abandon(owner, claims, {.delay = hours{1}}); },
           [&](const auto& claims) { return outbox.fail(owner, claims, "no"); },
           [&](const auto& claims) { return outbox.snooze(owner, claims, hours{1}); }}) {
    const auto claims = claimed_one();
    const std::vector<Claim> twice{claims[0], claims[0]};
    EXPECT_EQ(first(twice), 1U);
    EXPECT_EQ(settle_all(owner, claims), 0U);
  }
}

TEST_P(SettleContract, BadArgumentsAreRefusedBeforeAnyIo) {
  const auto claims = claimed_one();
  EXPECT_THROW(outbox.fail(owner, claims, ""), std::invalid_argument);
  EXPECT_THROW(outbox.fail(owner, claims, "\xFF"), std::invalid_argument);
  EXPECT_THROW(outbox.abandon(owner, claims, {.error = "\xFF"}), std::invalid_argument);
  EXPECT_THROW(outbox.abandon(owner, claims, {.delay = milliseconds{-1}}), std::out_of_range);
  EXPECT_THROW(outbox.abandon(owner, claims, {.max_attempts = 0}), std::out_of_range);
  EXPECT_THROW(outbox.snooze(owner, claims, milliseconds{-1}), std::out_of_range);
  EXPECT_THROW(outbox.renew(owner, claims, milliseconds{0}), std::out_of_range);
  EXPECT_THROW(outbox.ack(OwnerToken{}, claims), std::invalid_argument);
  EXPECT_EQ(outbox.ack(owner, claims), 1U) << "and nothing was lost";
}

// --- snooze and renew

TEST_P(SettleContract, ASnoozeCostsNothing) {
  auto claims = claimed_one();
  for (int i = 0; i < 15; ++i) {
    ASSERT_EQ(outbox.snooze(owner, claims, seconds{5}), 1U);
    backend.advance(seconds{4});
    EXPECT_THAT(claim(), IsEmpty());
    backend.advance(seconds{2});
    claims = claims_of(claim());
    ASSERT_THAT(claims, SizeIs(1));
  }
  EXPECT_EQ(found(MessageId{claims[0].id.uuid()}).message.attempts, 0);
}

TEST_P(SettleContract, AReleasedMessageKeepsItsPlace) {
  outbox.enqueue({.topic = "first"});
  const auto first = claims_of(claim());
  outbox.enqueue({.topic = "second"});
  ASSERT_EQ(outbox.snooze(owner, first), 1U);
  const auto claimed = claim(1);
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.topic, "first");
  EXPECT_EQ(claimed[0].message.attempts, 0);
}

TEST_P(SettleContract, ARenewedLeaseHolds) {
  const auto claims = claimed_one();
  for (int i = 0; i < 3; ++i) {
    backend.advance(seconds{20});
    ASSERT_EQ(outbox.renew(owner, claims, seconds{30}), 1U);
    EXPECT_THAT(claim_as(OwnerToken::generate()), IsEmpty());
  }
  EXPECT_EQ(outbox.ack(owner, claims), 1U);
}

// --- expired leases

TEST_P(SettleContract, OBX_049_OBX_050_OBX_051_OBX_052_ReapingFreesWhatRanOutAndNothingElse) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(4, {.topic = "t"}));
  const auto claims = claims_of(claim(4, seconds{10}));
  ASSERT_THAT(claims, SizeIs(4));
  outbox.ack(owner, std::vector{claims[0]});
  outbox.fail(owner, std::vector{claims[1]}, "no");
  outbox.enqueue({.topic = "held"});
  ASSERT_THAT(claim(1, hours{1}), SizeIs(1));
  EXPECT_EQ(outbox.reap_expired(), 0U);
  backend.advance(seconds{11});
  EXPECT_EQ(outbox.reap_expired(), 2U);
  EXPECT_EQ(
      backend.number(
          "select count(*) from " + backend.table("outbox_messages") +
          " where status = 0 and locked_until is null and owner_token is null and retry_count = 1"),
      2);
  EXPECT_EQ(with_status(MessageStatus::in_progress), 1);
  EXPECT_EQ(with_status(MessageStatus::done), 1);
  EXPECT_EQ(with_status(MessageStatus::failed), 1);
  EXPECT_EQ(outbox.reap_expired(), 0U);
  EXPECT_THAT(claim(), SizeIs(2));
}

TEST_P(SettleContract, AMessageThatKillsItsWorkersEndsAsADeadLetter) {
  const auto id = outbox.enqueue({.topic = "poison"});
  for (int deaths = 0; deaths < 10; ++deaths) {
    const auto claimed = claim_as(OwnerToken::generate());
    ASSERT_THAT(claimed, SizeIs(1)) << deaths;
    EXPECT_EQ(claimed[0].message.attempts, deaths);
    backend.advance(seconds{31});
  }
  EXPECT_THAT(outbox.claim({.owner = owner, .max_attempts = 10}), IsEmpty());
  const auto dead = found(id);
  EXPECT_EQ(dead.status, MessageStatus::failed);
  EXPECT_EQ(dead.message.attempts, 10);
  EXPECT_THAT(dead.last_error.value(), HasSubstr("lease expired"));
}

TEST_P(SettleContract, ReapingFailsWhatHasUsedUpItsAttempts) {
  const auto id = outbox.enqueue({.topic = "poison"});
  for (int deaths = 0; deaths < 3; ++deaths) {
    ASSERT_THAT(claim_as(OwnerToken::generate()), SizeIs(1));
    backend.advance(seconds{31});
    EXPECT_EQ(outbox.reap_expired({.max_attempts = 3}), 1U);
  }
  EXPECT_EQ(found(id).status, MessageStatus::failed);
}

// --- expiry, priority, headers, unique keys

TEST_P(SettleContract, AMessagePastItsExpiryFailsInsteadOfBeingDelivered) {
  const auto late = outbox.enqueue({.topic = "late", .expires_at = backend.now() + seconds{10}});
  const auto fine = outbox.enqueue({.topic = "fine", .expires_at = backend.now() + hours{1}});
  backend.advance(seconds{11});
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.message_id, fine);
  const auto dead = found(late);
  EXPECT_EQ(dead.status, MessageStatus::failed);
  EXPECT_THAT(dead.last_error.value(), HasSubstr("expired"));
}

TEST_P(SettleContract, ManyExpiredMessagesDoNotHideTheLiveOnesBehindThem) {
  const auto soon = backend.now() + seconds{1};
  outbox.enqueue_many(std::vector<EnqueueRequest>(300, {.topic = "late", .expires_at = soon}));
  outbox.enqueue_many(std::vector<EnqueueRequest>(5, {.topic = "fine"}));
  backend.advance(seconds{2});
  std::size_t delivered = 0;
  for (int i = 0; i < 10 && delivered < 5; ++i) delivered += claim(50).size();
  EXPECT_EQ(delivered, 5U);
  EXPECT_EQ(with_status(MessageStatus::failed), 300);
}

TEST_P(SettleContract, HigherPrioritiesAreClaimedFirst) {
  for (const int priority : {0, -5, 5, 3, 0, 5}) {
    outbox.enqueue({.topic = std::to_string(priority), .priority = priority});
  }
  std::vector<std::string> order;
  for (int i = 0; i < 3; ++i) {
    for (const auto& each : claim(2)) order.push_back(each.message.topic);
  }
  EXPECT_THAT(order, ElementsAre("5", "5", "3", "0", "0", "-5"));
}

TEST_P(SettleContract, HeadersTravelWithTheirMessage) {
  const Headers headers{{"traceparent", "00-4bf92f-01"}, {"quote", "\"ä\\\n"}, {"empty", ""}};
  outbox.enqueue({.topic = "one", .headers = headers});
  outbox.enqueue_many(
      std::vector<EnqueueRequest>{{.topic = "many", .headers = headers}, {.topic = "none"}});
  for (const auto& each : claim()) {
    EXPECT_EQ(each.message.headers, each.message.topic == "none" ? Headers{} : headers)
        << each.message.topic;
  }
}

TEST_P(SettleContract, NewFieldsHaveTheirLimitsInTheError) {
  const auto refused = [&](const EnqueueRequest& request, const std::string& text) {
    try {
      outbox.enqueue(request);
      ADD_FAILURE() << "accepted; expected " << text;
    } catch (const std::logic_error& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  Headers many;
  for (int i = 0; i < 65; ++i) many["h" + std::to_string(i)] = "v";
  refused({.topic = "t", .headers = many}, "64");
  refused({.topic = "t", .headers = {{"h", std::string(17'000, 'x')}}}, "16384");
  refused({.topic = "t", .headers = {{"", "v"}}}, "empty name");
  refused({.topic = "t", .headers = {{"h", "\xFF"}}}, "UTF-8");
  refused({.topic = "t", .priority = 6}, "-5 to 5");
  refused({.topic = "t", .priority = -6}, "-5 to 5");
  refused({.topic = "t", .unique_key = std::string(256, 'k')}, "255");
  EXPECT_EQ(stored(), 0);
}

TEST_P(SettleContract, AUniqueKeyIsTakenUntilItsMessageIsFinished) {
  const EnqueueRequest request{.topic = "report", .unique_key = "report-7"};
  const auto first = outbox.enqueue(request);
  EXPECT_TRUE(first.stored());
  const auto second = outbox.enqueue(request);
  EXPECT_FALSE(second.stored());
  EXPECT_EQ(second, first);
  EXPECT_TRUE(outbox.enqueue({.topic = "report", .unique_key = "report-8"}).stored());

  auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(2));
  EXPECT_FALSE(outbox.enqueue(request).stored()) << "while it is in progress";
  outbox.ack(owner, claims_of(claimed));
  const auto third = outbox.enqueue(request);
  EXPECT_TRUE(third.stored());
  EXPECT_NE(third, first);
  outbox.fail(owner, claims_of(claim()), "no");
  EXPECT_TRUE(outbox.enqueue(request).stored()) << "a dead letter is finished";
}

TEST_P(SettleContract, ManyMayHoldUniqueKeysAndKnownIds) {
  const auto known = outbox.enqueue({.topic = "t", .message_id = MessageId::generate()});
  const auto keyed = outbox.enqueue({.topic = "t", .unique_key = "k"});
  const std::vector<EnqueueRequest> requests{{.topic = "new"},
                                             {.topic = "again", .message_id = known},
                                             {.topic = "taken", .unique_key = "k"},
                                             {.topic = "fresh", .unique_key = "k2"},
                                             {.topic = "twice", .unique_key = "k2"}};
  const auto answers = outbox.enqueue_many(requests);
  ASSERT_THAT(answers, SizeIs(5));
  EXPECT_TRUE(answers[0].stored());
  EXPECT_FALSE(answers[1].stored());
  EXPECT_EQ(answers[1], known);
  EXPECT_FALSE(answers[2].stored());
  EXPECT_EQ(answers[2], keyed);
  EXPECT_TRUE(answers[3].stored());
  EXPECT_FALSE(answers[4].stored());
  EXPECT_EQ(answers[4], answers[3]);
  EXPECT_EQ(stored(), 4);
}

TEST_P(SettleContract, AnEnqueueRepeatedAfterItsMessageWasDoneStoresNothing) {
  const EnqueueRequest request{.topic = "t", .message_id = MessageId::generate()};
  EXPECT_TRUE(outbox.enqueue(request).stored());
  outbox.ack(owner, claims_of(claim()));
  EXPECT_FALSE(outbox.enqueue(request).stored());
  EXPECT_FALSE(outbox.enqueue_many(std::vector{request})[0].stored());
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_EQ(stored(), 1);
}

TEST_P(SettleContract, OneOfManyConcurrentEnqueuersOfAKeyStoresIt) {
  std::atomic<int> stored_count{0};
  std::vector<Enqueued> answers(8);
  {
    std::vector<std::jthread> threads;
    for (auto& answer : answers) {
      threads.emplace_back([&] {
        answer = outbox.enqueue({.topic = "t", .unique_key = "one"});
        if (answer.stored()) ++stored_count;
      });
    }
  }
  EXPECT_EQ(stored_count, 1);
  for (const auto& answer : answers) EXPECT_EQ(answer, answers[0]);
}

// --- many at once

TEST_P(SettleContract, OBX_097_ABatchIsSettledAsAWhole) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(200, {.topic = "t"}));
  const auto claims = claims_of(claim(200));
  ASSERT_THAT(claims, SizeIs(200));
  // A constraint that rejects one of the messages rejects the batch.
  const auto victim = claims[150].id.to_string();
  if (backend.is_postgres()) {
    backend.sql("alter table " + backend.table("outbox_archive") +
                " add constraint no_victim check (id <> '" + victim + "')");
  } else {
    std::string hex = victim;
    std::erase(hex, '-');
    backend.sql("create trigger no_victim before update on " + backend.table("outbox") +
                " when new.id = x'" + hex + "' begin select raise(abort, 'refused'); end");
  }
  EXPECT_THROW(outbox.ack(owner, claims), Error);
  EXPECT_EQ(with_status(MessageStatus::in_progress), 200);
  EXPECT_EQ(with_status(MessageStatus::done), 0);
}

TEST_P(SettleContract, OfManyAcksOnlyThoseOfALiveClaimTakeEffect) {
  for (const bool keep : {true, false}) {
    auto options = backend.options();
    if (!keep) options.outbox.retain_done = seconds{0};
    auto acking = Platform::open(backend.url(), options);
    outbox.enqueue_many(std::vector<EnqueueRequest>(50, {.topic = "t"}));
    auto claims = claims_of(claim(50));
    ASSERT_THAT(claims, SizeIs(50));
    // Some messages were snoozed and claimed again, so that epochs differ. Some have another owner
    // now.
    const std::vector<Claim> second(claims.begin() + 10, claims.begin() + 20);
    const std::vector<Claim> foreign(claims.begin() + 20, claims.begin() + 30);
    EXPECT_EQ(outbox.snooze(owner, second), 10U);
    EXPECT_THAT(claim(10), SizeIs(10));
    EXPECT_EQ(outbox.snooze(owner, foreign), 10U);
    EXPECT_THAT(claim_as(OwnerToken::generate()), SizeIs(10));
    const std::vector<Claim> stale(claims.begin() + 15, claims.begin() + 20);
    for (auto i = 15; i < 20; ++i)
      ++claims[static_cast<std::size_t>(i)].epoch;  // the other epochs are old
    claims.insert(claims.begin(), stale.begin(),
                  stale.end());   // with the live claims of the same messages
    claims.push_back(claims[0]);  // twice
    claims.push_back({MessageId::generate(), 1});
    EXPECT_EQ(acking.outbox().ack(owner, claims), 35U);
    EXPECT_EQ(with_status(MessageStatus::done), keep ? 35 : 0);
    EXPECT_EQ(with_status(MessageStatus::in_progress), 15);
    EXPECT_EQ(acking.outbox().ack(owner, claims), 0U);
    backend.sql("delete from " + backend.table("outbox"));
    if (backend.is_postgres()) backend.sql("delete from " + backend.table("outbox_archive"));
  }
}

TEST_P(SettleContract, WhereAClaimsRowIsSaidToBeDecidesNothing) {
  for (const bool keep : {true, false}) {
    auto options = backend.options();
    if (!keep) options.outbox.retain_done = seconds{0};
    auto acking = Platform::open(backend.url(), options);
    outbox.enqueue_many(std::vector<EnqueueRequest>(50, {.topic = "t"}));
    const auto claims = claims_of(claim(50));
    ASSERT_THAT(claims, SizeIs(50));
    auto strangers = claims;  // the right rows and epochs, of messages that do not exist
    for (auto& each : strangers) each.id = MessageId::generate();
    EXPECT_EQ(acking.outbox().ack(owner, strangers), 0U);
    EXPECT_EQ(with_status(MessageStatus::in_progress), 50);
    auto unplaced = std::vector(claims.begin(), claims.begin() + 10);
    for (auto& each : unplaced) each.hint = {};
    std::shuffle(unplaced.begin(), unplaced.end(), std::mt19937{7});
    EXPECT_EQ(acking.outbox().ack(owner, unplaced), 10U);
    std::vector misplaced(claims.begin() + 10, claims.begin() + 20);  // each at the wrong row
    for (auto& each : misplaced)
      each.hint = claims[static_cast<std::size_t>(&each - misplaced.data()) + 11].hint;
    EXPECT_EQ(acking.outbox().ack(owner, misplaced), 10U);
    const std::vector moved(claims.begin() + 20, claims.begin() + 35);
    EXPECT_EQ(outbox.renew(owner, {moved.data() + 3, 5}, hours{1}), 5U);
    EXPECT_EQ(acking.outbox().ack(owner, moved), 15U);
    std::vector rest(claims.begin() + 35, claims.end());
    std::shuffle(rest.begin(), rest.end(), std::mt19937{7});
    EXPECT_EQ(acking.outbox().ack(owner, rest), 15U);
    EXPECT_EQ(with_status(MessageStatus::in_progress), 0);
  }
}

TEST_P(SettleContract, OBX_098_OBX_099_SixteenSessionsThatSettleTheSameClaimsDoNotDeadlock) {
  constexpr std::size_t messages = 600;
  outbox.enqueue_many(std::vector<EnqueueRequest>(messages, {.topic = "t"}));
  outbox.enqueue_many(std::vector<EnqueueRequest>(200, {.topic = "expired"}));
  auto shared = claims_of(claim(messages, hours{1}));
  ASSERT_THAT(shared, SizeIs(messages));
  ASSERT_THAT(claim(200, seconds{1}), SizeIs(200));
  backend.advance(seconds{2});
  const auto deadlocks = [&] {
    return backend.is_postgres()
               ? backend.number(
                     "select deadlocks from pg_stat_database where datname = current_database()")
               : 0;
  };
  const auto before = deadlocks();
  auto options = backend.options();
  options.max_connections = 16;
  auto wide = Platform::open(backend.url(), options);
  std::atomic<std::size_t> settled{0};
  std::atomic<std::size_t> reaped{0};
  {
    std::vector<std::jthread> sessions;
    for (unsigned i = 0; i < 16; ++i) {
      sessions.emplace_back([&, i, mine = shared]() mutable {
        auto& box = wide.outbox();
        std::mt19937 random{i};
        for (int round = 0; round < 12; ++round) {
          std::ranges::shuffle(mine, random);  // each thread has its own order of the claims
          const auto some = std::span{mine}.first(60);
          switch ((i + static_cast<unsigned>(round)) % 5) {
            case 0:
              settled += box.ack(owner, some);
              break;
            case 1:
              settled += box.fail(owner, some, "no");
              break;
            case 2:
              box.renew(owner, some, hours{1});
              break;
            case 3:
              reaped += box.reap_expired();
              break;
            default:
              box.purge_dead_letters(DeadLetterFilter{.topic = "nothing"});
              if (backend.is_postgres()) {  // without the component, which sorts: the function must
                                            // sort, too
                std::string ids;
                std::string epochs;
                for (const auto& each : some) {
                  ids += (ids.empty() ? "" : ",") + each.id.to_string();
                  epochs += (epochs.empty() ? "" : ",") + std::to_string(each.epoch);
                }
                auto transaction = wide.begin();
                const auto row = transaction.query("select " + backend.table("outbox_ack") +
                                                       "($1::uuid, $2::uuid[], $3::bigint[])",
                                                   owner, "{" + ids + "}", "{" + epochs + "}");
                transaction.commit();
                settled += static_cast<std::size_t>(row.at(0).get<std::int64_t>(0));
              }
              break;
          }
        }
      });
    }
  }
  const auto counts = outbox.counts();
  EXPECT_EQ(counts.ready + counts.in_progress + counts.done + counts.failed, 800);
  EXPECT_EQ(static_cast<std::size_t>(counts.done + counts.failed), settled.load())
      << "a claim settled twice";
  EXPECT_EQ(reaped, 200U);
  EXPECT_EQ(deadlocks(), before);
}

}  // namespace
}  // namespace dovetail::testing
