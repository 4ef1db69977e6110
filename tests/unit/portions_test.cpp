#include "storage/portions.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace dovetail;
using namespace std::chrono_literals;

/// Counts transactions.
struct Transactions {
  [[nodiscard]] bool transactions_exclude_writers() const { return one_writer; }
  void write(const storage::WriteOptions&,
             const std::function<void(storage::WriteSession&)>& body) {
    class Nothing final : public storage::WriteSession {
     public:
      Rows query(std::string_view, std::span<const Parameter>) override { return {}; }
      std::size_t execute(std::string_view, std::span<const Parameter>) override { return 0; }
    };
    Nothing session;
    ++count;
    body(session);
  }
  bool one_writer = false;
  int count = 0;
};

TEST(Portions, AimAtAFewMilliseconds) {
  EXPECT_EQ(storage::next_portion(100, 2ms), 100);
  EXPECT_EQ(storage::next_portion(100, 8ms), 25);
  EXPECT_EQ(storage::next_portion(100, 1s), storage::smallest_portion);
  EXPECT_EQ(storage::next_portion(100, 10us), 200) << "no more than twice as many at once";
  EXPECT_EQ(storage::next_portion(900, 0us), storage::portion);
}

TEST(Portions, HandleEverythingAndEndWithAPortionThatIsNotFull) {
  for (const bool one_writer : {false, true}) {
    Transactions database{.one_writer = one_writer};
    std::size_t left = 2'345;
    std::vector<int> asked;
    const auto total = storage::in_portions(database, [&](storage::WriteSession&, int most) {
      asked.push_back(most);
      const auto some = std::min<std::size_t>(left, static_cast<std::size_t>(most));
      left -= some;
      return some;
    });
    EXPECT_EQ(total, 2'345U);
    EXPECT_EQ(left, 0U);
    EXPECT_EQ(asked.front(), one_writer ? storage::first_portion : storage::portion);
    EXPECT_EQ(database.count, static_cast<int>(asked.size()));
  }
}

TEST(Portions, MayHaveASizeOfTheirOwn) {
  Transactions database{.one_writer = true};
  std::size_t left = storage::portion + 1;
  const auto total = storage::in_portions(database, [&](storage::WriteSession&) {
    const auto some = std::min<std::size_t>(left, storage::portion);
    left -= some;
    return some;
  });
  EXPECT_EQ(total, static_cast<std::size_t>(storage::portion) + 1);
  EXPECT_EQ(database.count, 2);
}

TEST(Portions, EndWhenTheyAreStopped) {
  Transactions database{.one_writer = true};
  std::stop_source stop;
  const auto total = storage::in_portions(
      database,
      [&](storage::WriteSession&, int most) {
        stop.request_stop();
        return static_cast<std::size_t>(most);
      },
      stop.get_token());
  EXPECT_EQ(total, static_cast<std::size_t>(storage::first_portion));
}

}  // namespace
