// Aggregates: states that are loaded from events and snapshots.
#include <thread>

#include "support/backend.hpp"

namespace dovetail::testing {
namespace {

struct Account {
  int balance = 0;
  int applied = 0;  ///< Events that were applied since the state was loaded.
};

class AggregateContract : public BackendTest {
 protected:
  AggregateRules<Account> rules() {
    return {.apply =
                [](Account& account, const Event& event) {
                  account.balance += std::stoi(event.data);
                  ++account.applied;
                },
            .save = [](const Account& account) { return std::to_string(account.balance); },
            .load = [](const std::string& data) { return Account{.balance = std::stoi(data)}; },
            .snapshot_every = 10};
  }
  static std::vector<NewEvent> deposit(int amount) {
    return {{.type = "Deposited", .data = std::to_string(amount)}};
  }
  Platform platform = backend.open();
  Events& events = platform.events();
};
DOVETAIL_CONTRACT(AggregateContract);

TEST_P(AggregateContract, AStateIsLoadedFromItsEvents) {
  const auto accounts = events.aggregate<Account>(rules());
  EXPECT_EQ(accounts.load("a").version, 0);
  const auto after = accounts.update("a", [](const Account&) { return deposit(5); });
  EXPECT_EQ(after.state.balance, 5);
  EXPECT_EQ(after.version, 1);
  accounts.update("a", [](const Account& account) { return deposit(account.balance * 2); });
  EXPECT_EQ(accounts.load("a").state.balance, 15);
  const auto same = accounts.update("a", [](const Account&) { return std::vector<NewEvent>{}; });
  EXPECT_EQ(same.version, 2) << "no events: nothing is appended";
}

TEST_P(AggregateContract, ASnapshotSavesReadingTheEventsBeforeIt) {
  const auto accounts = events.aggregate<Account>(rules());
  for (int i = 0; i < 25; ++i) accounts.update("a", [](const Account&) { return deposit(1); });
  const auto loaded = accounts.load("a");
  EXPECT_EQ(loaded.state.balance, 25);
  EXPECT_EQ(loaded.version, 25);
  EXPECT_EQ(loaded.snapshot_version, 20);
  EXPECT_EQ(loaded.state.applied, 5);
  auto other = rules();
  other.schema = 2;
  EXPECT_EQ(events.aggregate<Account>(other).load("a").snapshot_version, 0);
  events.truncate("a", 21);
  EXPECT_EQ(accounts.load("a").state.balance, 25) << "the events before it are not needed";
  EXPECT_THROW((void)events.aggregate<Account>(other).load("a"), InvalidOperation)
      << "without the snapshot, they are";
}

TEST_P(AggregateContract, AnUpdateStartsAgainAfterAConflict) {
  const auto accounts = events.aggregate<Account>(rules());
  int calls = 0;
  const auto after = accounts.update("a", [&](const Account& account) {
    if (++calls == 1) events.append("a", ExpectedVersion::any(), deposit(100));
    return deposit(account.balance + 1);
  });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(after.state.balance, 201);
  auto once = rules();
  once.max_attempts = 1;
  EXPECT_THROW(events.aggregate<Account>(once).update("a",
                                                      [&](const Account&) {
                                                        events.append("a", ExpectedVersion::any(),
                                                                      deposit(1));
                                                        return deposit(1);
                                                      }),
               VersionConflict);
}

TEST_P(AggregateContract, ConcurrentUpdatesLoseNothing) {
  auto patient = rules();
  patient.max_attempts = 1'000;
  const auto accounts = events.aggregate<Account>(patient);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 5; ++n) accounts.update("a", [](const Account&) { return deposit(1); });
      });
    }
  }
  EXPECT_EQ(accounts.load("a").state.balance, 20);
}

TEST_P(AggregateContract, RulesAreChecked) {
  EXPECT_THROW((void)events.aggregate<Account>({}), std::invalid_argument);
  auto half = rules();
  half.load = nullptr;
  EXPECT_THROW((void)events.aggregate<Account>(half), std::invalid_argument);
  auto none = rules();
  none.snapshot_every = 0;
  EXPECT_THROW((void)events.aggregate<Account>(none), std::out_of_range);
  none = rules();
  none.max_attempts = 0;
  EXPECT_THROW((void)events.aggregate<Account>(none), std::out_of_range);
}

}  // namespace
}  // namespace dovetail::testing
