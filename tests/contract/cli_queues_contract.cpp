// Every queue on the command line: --queue.
#include "support/cli_test.hpp"

namespace dovetail::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class CliQueuesContract : public CliTest {
 protected:
  CliQueuesContract() {
    // A message of the outbox that no call below may touch.
    platform.outbox().enqueue({.topic = "orders", .payload = "outbox"});
  }
  static Platform open(const Backend& backend) {
    auto options = backend.options();
    options.clock = nullptr;  // the clock of the command
    return Platform::open(backend.url(), options);
  }

  /// A due message of the topic `orders`.
  void store(const std::string& queue) {
    if (queue == "inbox") {
      platform.inbox().enqueue({.topic = "orders",
                                .source = "shop",
                                .message_id = std::to_string(++stored_),
                                .payload = queue});
    } else {
      platform.timers().schedule(
          {.topic = "orders", .payload = queue, .delay = std::chrono::milliseconds{0}});
    }
  }

  /// `words` with `--queue`.
  static Words on(const std::string& queue, Words words) {
    words.insert(words.end(), {"--queue", queue});
    return words;
  }

  struct Leased {
    std::string id;
    std::string owner;
    std::string claim;
  };
  Leased claim_of(const std::string& queue, const std::string& lease = "60") {
    const auto answer = ask(on(queue, {"claim", "--lease", lease}));
    EXPECT_EQ(answer["messages"].size(), 1U) << answer.dump();
    const auto& message = answer["messages"][0];
    EXPECT_EQ(message["payload"], queue);
    const auto id = message["id"].get<std::string>();
    return {id, answer["owner"], id + ":" + std::to_string(message["epoch"].get<int>())};
  }

  /// Fails a new message and returns its id.
  std::string dead_letter_of(const std::string& queue) {
    store(queue);
    const auto leased = claim_of(queue);
    EXPECT_EQ(ask(on(queue, {"fail", "--owner", leased.owner, "--error", "broken",
                             leased.claim}))["failed"],
              1);
    return leased.id;
  }

  json counts(const std::string& queue) { return ask({"status"})[queue]; }

  Platform platform = open(backend);
  int stored_ = 0;
};
DOVETAIL_CONTRACT(CliQueuesContract);

TEST_P(CliQueuesContract, ClaimsAreSettledOnEveryQueue) {
  for (const std::string queue : {"inbox", "timers"}) {
    SCOPED_TRACE(queue);
    store(queue);
    const auto settle = [&](const Words& words, const Leased& leased) {
      auto call = words;
      call.insert(call.end(), {"--owner", leased.owner, leased.claim});
      return dovetail(on(queue, call)).out;
    };
    const auto first = claim_of(queue);
    EXPECT_EQ(settle({"renew", "--lease", "90"}, first), "renewed 1 of 1\n");
    EXPECT_EQ(settle({"snooze"}, first), "snoozed 1 of 1\n");
    EXPECT_EQ(settle({"abandon", "--delay", "0"}, claim_of(queue)), "abandoned 1 of 1\n");
    const auto last = claim_of(queue);
    // The claim is unknown to the other queues.
    EXPECT_EQ(dovetail({"ack", "--owner", last.owner, last.claim}).code, 1);
    EXPECT_EQ(settle({"ack"}, last), "acked 1 of 1\n");
    EXPECT_EQ(counts(queue)["done"], 1);
  }
  EXPECT_EQ(counts("outbox")["ready"], 1);
}

TEST_P(CliQueuesContract, ExpiredLeasesAreReapedOnEveryQueue) {
  for (const std::string queue : {"inbox", "timers"}) {
    SCOPED_TRACE(queue);
    store(queue);
    claim_of(queue, "0.001");
    EXPECT_EQ(dovetail({"reap"}).out, "reaped 0\n");
    EXPECT_EQ(dovetail(on(queue, {"reap"})).out, "reaped 1\n");
    EXPECT_EQ(claim_of(queue).id.size(), 36U);
  }
}

TEST_P(CliQueuesContract, DeadLettersOfEveryQueueAreListedShownReplayedAndPurged) {
  for (const std::string queue : {"inbox", "timers"}) {
    SCOPED_TRACE(queue);
    const auto id = dead_letter_of(queue);
    EXPECT_EQ(ask({"dead-letters", "list"})["dead_letters"].size(), 0U);
    const auto listed = ask(on(queue, {"dead-letters", "list", "--topic", "orders"}));
    ASSERT_EQ(listed["dead_letters"].size(), 1U);
    EXPECT_EQ(listed["dead_letters"][0]["message_id"], id);
    const auto summary = ask(on(queue, {"dead-letters", "summary"}));
    ASSERT_EQ(summary["groups"].size(), 1U);
    EXPECT_EQ(summary["groups"][0]["error"], "broken");
    EXPECT_EQ(ask(on(queue, {"dead-letters", "show", id}))["payload"], queue);
    const auto elsewhere = dovetail({"dead-letters", "show", id});
    EXPECT_EQ(elsewhere.code, 1);
    EXPECT_THAT(elsewhere.err, HasSubstr("in the queue outbox"));

    EXPECT_EQ(ask(on(queue, {"dead-letters", "replay", "--all", "--dry-run"}))["would_replay"], 1);
    EXPECT_EQ(dovetail(on(queue, {"dead-letters", "replay", id})).out, "replayed 1 of 1\n");
    EXPECT_EQ(claim_of(queue).id, id);
    const auto purged = dead_letter_of(queue);
    EXPECT_EQ(dovetail(on(queue, {"dead-letters", "purge", purged})).out, "purged 1 of 1\n");
    EXPECT_EQ(counts(queue)["failed"], 0);
  }
}

TEST_P(CliQueuesContract, ATopicIsPausedInOneQueueOnly) {
  for (const std::string queue : {"inbox", "timers"}) {
    SCOPED_TRACE(queue);
    store(queue);
    const auto paused = ask(on(queue, {"pause", "orders"}));
    EXPECT_EQ(paused["queue"], queue);
    EXPECT_EQ(paused["changed"], true);
    EXPECT_EQ(ask(on(queue, {"claim"}))["messages"].size(), 0U);
    EXPECT_EQ(counts(queue)["paused_topics"].size(), 1U);
    EXPECT_EQ(counts("outbox")["paused_topics"].size(), 0U);
    EXPECT_EQ(dovetail(on(queue, {"resume", "orders"})).out, "resumed orders\n");
    claim_of(queue);
  }
}

TEST_P(CliQueuesContract, AnUnknownQueueIsRefusedWithTheNamesOfAll) {
  for (const Words& words :
       std::vector<Words>{{"claim"}, {"reap"}, {"pause", "orders"}, {"dead-letters", "list"}}) {
    const auto answer = dovetail(on("outbx", words));
    EXPECT_EQ(answer.code, 2);
    EXPECT_THAT(answer.err, HasSubstr("there is no queue \"outbx\"; the queues are outbox, inbox "
                                      "and timers"));
  }
}

}  // namespace
}  // namespace dovetail::testing
