// Many callers enqueue at the same time without a Transaction, on both engines.
#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "support/eventually.hpp"
#include "support/outbox_test.hpp"
#include "support/start_waiting.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::SizeIs;

class GroupCommitContract : public OutboxTest {
 protected:
  static constexpr int callers = 64;

  /// Calls `call(number)` on `callers` threads. All of them have started before the first write
  /// ends: a transaction of the user blocks all others until then.
  template <class Call>
  void all_at_once(const Call& call) {
    UserConnection user(backend);
    if (backend.is_postgres()) {
      user.execute("begin");
      user.execute("lock table " + backend.table("outbox") + " in access exclusive mode");
    } else {
      user.execute("begin immediate");
    }
    std::vector<std::jthread> threads;
    for (int i = 0; i < callers; ++i) {
      threads.push_back(start_waiting([&call, i] { call(i); }));
    }
    user.execute("rollback");
  }

  /// Refuses messages of the topic `poison`.
  void refuse_poison() {
    if (backend.is_postgres()) {
      backend.sql("alter table " + backend.table("outbox") +
                  " add constraint no_poison check (topic <> 'poison')");
    } else {
      backend.sql("create trigger no_poison before insert on " + backend.table("outbox") +
                  " when new.topic = 'poison' begin select raise(abort, 'poison'); end");
    }
  }
};
DOVETAIL_CONTRACT(GroupCommitContract);

TEST_P(GroupCommitContract, EachMessageIsStoredOnceAndEachCallerGetsItsOwnId) {
  std::array<Enqueued, callers> answers;
  all_at_once([&](int i) {
    answers.at(static_cast<std::size_t>(i)) =
        outbox.enqueue({.topic = "t", .payload = std::to_string(i)});
  });
  EXPECT_EQ(stored(), callers);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(answers.at(i).stored());
    EXPECT_EQ(found(answers.at(i)).message.payload, std::to_string(i));
  }
  EXPECT_EQ(platform.metrics().counter("dovetail_enqueued_total"), callers);
}

TEST_P(GroupCommitContract, CallersShareTransactionsWhereTheEngineProfits) {
  all_at_once([&](int) { outbox.enqueue({.topic = "t"}); });
  const auto measured = platform.metrics();
  if (!backend.is_postgres()) {
    EXPECT_EQ(measured.counter("dovetail_group_commits_total"), 0U);
    return;
  }
  EXPECT_EQ(measured.counter("dovetail_group_commit_messages_total"), callers);
  EXPECT_LT(measured.counter("dovetail_group_commits_total"), callers / 2);
}

TEST_P(GroupCommitContract, MessagesKeepTheirOptionsInAGroup) {
  const auto due = backend.now() + 1h;
  const std::vector<EnqueueRequest> kinds{
      {.topic = "plain"},
      {.topic = "late", .due_at = due},
      {.topic = "delayed", .delay = 90min},
      {.topic = "correlated", .correlation_id = "c-1"},
      {.topic = "headed", .headers = {{"a", "1"}, {"b", "2"}}},
      {.topic = "expiring", .expires_at = due},
      {.topic = "urgent", .priority = 5},
      {.topic = "named", .message_id = MessageId::generate()},
      {.topic = "unique", .unique_key = "only one"},
  };
  std::array<Enqueued, callers> answers;
  all_at_once([&](int i) {
    const auto place = static_cast<std::size_t>(i);
    answers.at(place) = outbox.enqueue(kinds[place % kinds.size()]);
  });
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& kind = kinds[i % kinds.size()];
    const auto message = found(answers.at(i)).message;
    EXPECT_EQ(message.topic, kind.topic);
    EXPECT_EQ(message.correlation_id, kind.correlation_id);
    EXPECT_EQ(message.headers, kind.headers);
    EXPECT_EQ(message.priority, kind.priority);
    EXPECT_EQ(message.expires_at.has_value(), kind.expires_at.has_value());
    EXPECT_EQ(message.due_at.has_value(), kind.due_at || kind.delay) << kind.topic;
  }
}

TEST_P(GroupCommitContract, OfEqualIdsAndKeysOneIsStoredAndEachCallerIsToldWhich) {
  const auto id = MessageId::generate();
  std::array<Enqueued, callers> answers;
  all_at_once([&](int i) {
    EnqueueRequest request{.topic = "t"};
    if (i % 4 == 0) request.message_id = id;
    if (i % 4 == 1) request.unique_key = "k";
    answers.at(static_cast<std::size_t>(i)) = outbox.enqueue(request);
  });
  EXPECT_EQ(stored(), callers / 2 + 2);
  std::array<int, 4> counts{};
  std::set<MessageId> keyed;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers.at(i).stored()) ++counts.at(i % 4);
    if (i % 4 == 0) {
      EXPECT_EQ(answers.at(i), id);
    }
    if (i % 4 == 1) keyed.insert(answers.at(i));
  }
  EXPECT_THAT(counts, ::testing::ElementsAre(1, 1, callers / 4, callers / 4));
  EXPECT_THAT(keyed, SizeIs(1));
}

TEST_P(GroupCommitContract, AMessageThatTheDatabaseRefusesFailsNoOther) {
  refuse_poison();
  std::array<bool, callers> refused{};
  all_at_once([&](int i) {
    const bool bad = i % 16 == 7;
    try {
      outbox.enqueue({.topic = bad ? "poison" : "t"});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::constraint) << error.what();
      refused.at(static_cast<std::size_t>(i)) = true;
    }
  });
  for (int i = 0; i < callers; ++i) {
    EXPECT_EQ(refused.at(static_cast<std::size_t>(i)), i % 16 == 7) << i;
  }
  EXPECT_EQ(stored(), callers - 4);
}

TEST_P(GroupCommitContract, SharedMessagesWakeTheWorkers) {
  std::atomic<int> handled{0};
  platform.on("t", [&](const Message&, HandlerContext&) { ++handled; });
  platform.start();
  all_at_once([&](int) { outbox.enqueue({.topic = "t"}); });
  EXPECT_TRUE(eventually([&] { return handled == callers; }));
  EXPECT_TRUE(platform.stop());
}

}  // namespace
}  // namespace dovetail::testing
