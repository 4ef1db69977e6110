#include "dovetail/selection.hpp"

#include <map>
#include <string>
#include <vector>

namespace dovetail {
namespace {

using std::chrono::milliseconds;

/// One call of a strategy: the stores that are due, as "a b- c", where `-` means without room; how
/// many messages the claim before returned; and the store that must be selected.
struct SelectionStep {
  std::string due;
  int claimed_before;  ///< -1: there was no claim before.
  std::string selected;
};

std::vector<SelectableStore> parsed_stores(std::string_view text) {
  std::vector<SelectableStore> stores;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ' ') continue;
    const bool full = at + 1 < text.size() && text[at + 1] == '-';
    stores.push_back({.key = text.substr(at, 1), .has_room = !full});
    if (full) ++at;
  }
  return stores;
}

void expect_selections(SelectionStrategy& strategy, const std::vector<SelectionStep>& steps) {
  std::string last_key;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& step = steps[i];
    const auto stores = parsed_stores(step.due);
    std::optional<LastSelection> last;
    if (step.claimed_before >= 0) {
      last = {.key = last_key, .claimed = static_cast<std::size_t>(step.claimed_before)};
    }
    const auto index = strategy.next(stores, last);
    EXPECT_EQ(index ? std::string{stores.at(*index).key} : "", step.selected) << "step " << i;
    if (index) last_key = stores.at(*index).key;
  }
}

TEST(SelectionTest, OBX_068_RoundRobinTakesOneBatchFromEachInOrder) {
  expect_selections(
      *round_robin(),
      {{"abc", -1, "a"}, {"abc", 100, "b"}, {"abc", 0, "c"}, {"abc", 100, "a"}, {"abc", 100, "b"}});
}

TEST(SelectionTest, OBX_068_RoundRobinGoesOnBehindADatabaseThatIsNoLongerDue) {
  expect_selections(
      *round_robin(),
      {{"abcd", -1, "a"}, {"abcd", 1, "b"}, {"acd", 1, "c"}, {"ad", 1, "d"}, {"abcd", 1, "a"}});
}

TEST(SelectionTest, RoundRobinServesADatabaseThatBecomesDueInTheSameRound) {
  expect_selections(*round_robin(), {{"ac", -1, "a"}, {"ac", 1, "c"}, {"abc", 1, "b"}});
}

TEST(SelectionTest, RoundRobinPassesOverDatabasesWithoutRoom) {
  expect_selections(*round_robin(), {{"a-bc", -1, "b"},
                                     {"a-bc", 1, "c"},
                                     {"a-bc", 1, "b"},
                                     {"abc", 1, "a"},
                                     {"a-b-c-", 1, ""},
                                     {"abc", 1, "c"}});
}

TEST(SelectionTest, OBX_069_DrainFirstStaysUntilAClaimReturnsNothing) {
  expect_selections(*drain_first(), {{"abc", -1, "a"},
                                     {"abc", 100, "a"},
                                     {"abc", 1, "a"},
                                     {"abc", 0, "b"},
                                     {"abc", 5, "b"},
                                     {"abc", 0, "c"},
                                     {"abc", 0, "a"}});
}

TEST(SelectionTest, OBX_069_DrainFirstGoesOnBehindADatabaseThatIsNoLongerDue) {
  expect_selections(*drain_first(),
                    {{"abc", -1, "a"}, {"abc", 0, "b"}, {"ac", 100, "c"}, {"ab", 0, "a"}});
}

TEST(SelectionTest, OBX_069_DrainFirstWaitsForRoom) {
  expect_selections(
      *drain_first(),
      {{"ab", -1, "a"}, {"a-b", 100, ""}, {"a-b", 100, ""}, {"ab", 100, "a"}, {"ab-", 0, ""}});
}

TEST(SelectionTest, DrainFirstAsksTheOnlyDatabaseAgain) {
  expect_selections(*drain_first(), {{"a", -1, "a"}, {"a", 0, "a"}, {"a", 0, "a"}});
}

TEST(SelectionTest, FairPrefersTheDatabaseThatWasServedLeast) {
  expect_selections(*fair(), {{"abc", -1, "a"},
                              {"abc", 100, "b"},
                              {"abc", 1, "c"},
                              {"abc", 50, "b"},
                              {"abc", 1, "b"},
                              {"a-bc-", 1, "b"},
                              {"a-b-c-", 1, ""}});
}

TEST(SelectionTest, FairPrefersTheDatabaseThatWaitsLongestAmongEquals) {
  const std::vector<SelectableStore> stores{{.key = "a", .waiting = milliseconds{5}},
                                            {.key = "b", .waiting = milliseconds{9}},
                                            {.key = "c", .waiting = milliseconds{9}}};
  EXPECT_EQ(fair()->next(stores, std::nullopt), 1U) << "and the first one of those";
}

/// Selects repeatedly from stores that all have messages. Returns how often each was selected.
std::map<std::string, int> turns(SelectionStrategy& strategy, const std::string& due, int times,
                                 const std::map<std::string, std::size_t>& batches) {
  std::map<std::string, int> count;
  std::optional<LastSelection> last;
  const auto stores = parsed_stores(due);
  for (int i = 0; i < times; ++i) {
    const auto& store = stores.at(strategy.next(stores, last).value());
    ++count[std::string{store.key}];
    last = {.key = store.key, .claimed = batches.at(std::string{store.key})};
  }
  return count;
}

TEST(SelectionTest, FairGivesABusyDatabaseNoMoreMessagesThanTheOthers) {
  const auto strategy = fair();
  auto count = turns(*strategy, "ab", 1'100, {{"a", 100}, {"b", 10}});
  EXPECT_GT(count["b"], 5 * count["a"]);
  EXPECT_GT(count["a"], 50) << "it is not starved either";
}

TEST(SelectionTest, FairForgetsWhatWasLongAgo) {
  const auto strategy = fair();
  (void)turns(*strategy, "a", 10'000, {{"a", 100}});
  auto count = turns(*strategy, "ab", 60, {{"a", 100}, {"b", 100}});
  EXPECT_GT(count["a"], 10) << "the database b was quiet, but does not take all the turns";
}

TEST(SelectionTest, FairCountsTheResultOfAClaimOnce) {
  const auto strategy = fair();
  constexpr std::string_view both_text = "ab";
  const std::string_view full_text = "a-b-";
  const auto both = parsed_stores(both_text);  // its keys point into the text
  const auto full = parsed_stores(full_text);
  ASSERT_EQ(strategy->next(both, std::nullopt), 0U);
  const LastSelection of_a{.key = "a", .claimed = 3};
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(strategy->next(full, of_a));
  ASSERT_EQ(strategy->next(both, of_a), 1U);
  ASSERT_EQ(strategy->next(both, LastSelection{.key = "b", .claimed = 10}), 0U);
}

TEST(SelectionTest, AResetForgetsTheDatabases) {
  for (const auto& strategy : {round_robin(), drain_first(), fair()}) {
    expect_selections(*strategy, {{"ab", -1, "a"}, {"ab", 0, "b"}});
    strategy->reset();
    expect_selections(*strategy, {{"ab", -1, "a"}});
  }
}

}  // namespace
}  // namespace dovetail
