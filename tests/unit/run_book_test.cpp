#include "runtime/run_book.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/row_hint.hpp"

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

storage::ClaimedEntry entry_of_run(std::int64_t run) {
  storage::ClaimedEntry entry;
  entry.claimed.claim = {MessageId::generate(), 1, storage::run_hint_at(1, run)};
  return entry;
}

TEST(RunBook, OpensRunsForLargeClaimsOnly) {
  RunBook book(RunBook::Policy::by_need);
  EXPECT_FALSE(book.next_run(63, MonoTime{}));
  const auto run = book.next_run(64, MonoTime{});
  ASSERT_TRUE(run);
  EXPECT_GT(run->min_age, milliseconds{0});
  EXPECT_GT(book.next_run(64, MonoTime{})->run, run->run);
}

TEST(RunBook, PausesAfterAClaimWithoutARunAndAfterSlowHandlers) {
  RunBook book(RunBook::Policy::by_need);
  const MonoTime now{seconds{1}};
  book.note_none(now);
  EXPECT_FALSE(book.next_run(100, now));
  EXPECT_TRUE(book.next_run(100, now + seconds{1}));
  book.note_slow(now);
  EXPECT_FALSE(book.next_run(100, now + seconds{1}));
  EXPECT_TRUE(book.next_run(100, now + seconds{20}));
}

TEST(RunBook, TestsMayForceRunsOnOrOff) {
  RunBook always(RunBook::Policy::always);
  always.note_slow(MonoTime{});
  const auto run = always.next_run(1, MonoTime{});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->least, 1);
  EXPECT_FALSE(RunBook(RunBook::Policy::never).next_run(1'000, MonoTime{}));
}

TEST(RunBook, ARunEndsWithItsLastClaim) {
  RunBook book(RunBook::Policy::by_need);
  const std::vector entries{entry_of_run(7), entry_of_run(7)};
  book.opened(7, entries);
  EXPECT_THAT(book.ended_with({}), IsEmpty());
  const std::vector first{entries[0].claimed.claim};
  const std::vector both{entries[0].claimed.claim, entries[1].claimed.claim};
  EXPECT_THAT(book.ended_with(first), IsEmpty());
  EXPECT_THAT(book.ended_with(both), ElementsAre(7));
  book.end(first[0]);
  book.end(first[0]);
  EXPECT_THAT(book.ended_with({}), IsEmpty()) << "the same claim ends once";
  book.end(both[1]);
  EXPECT_THAT(book.ended_with({}), ElementsAre(7));
  book.closed(std::vector<std::int64_t>{7});
  EXPECT_THAT(book.ended_with({}), IsEmpty());
}

TEST(RunBook, ARunThatMayExistWithoutMessagesIsClosed) {
  RunBook book(RunBook::Policy::by_need);
  book.opened(9, {});
  EXPECT_THAT(book.ended_with({}), ElementsAre(9));
}

}  // namespace
}  // namespace dovetail::runtime
