#include "core/derived_id.hpp"

#include <gtest/gtest.h>

#include <set>

namespace dovetail::core {
namespace {

TEST(DerivedId, IsTheSameForTheSameAndAnotherForAllElse) {
  const auto source = Uuid::v7();
  EXPECT_EQ(derived_id(source, Derived::wait_of_join), derived_id(source, Derived::wait_of_join));
  std::set<Uuid> seen;
  for (int i = 0; i < 1'000; ++i) {
    const auto each = Uuid::v7();  // consecutive ids differ in few bits
    seen.insert(each);
    for (const auto purpose :
         {Derived::wait_of_join, Derived::continuation_of_wait, Derived::step_of_join}) {
      for (std::uint64_t index = 0; index < 10; ++index)
        seen.insert(derived_id(each, purpose, index));
    }
    seen.insert(derived_id(derived_id(each, Derived::wait_of_join), Derived::continuation_of_wait));
  }
  EXPECT_EQ(seen.size(), 1'000U * 32U);
}

TEST(DerivedId, KeepsTheTimeAndSaysWhatItIs) {
  const auto source = Uuid::v7();
  const auto derived = derived_id(source, Derived::wait_of_join);
  EXPECT_TRUE(
      std::equal(source.bytes().begin(), source.bytes().begin() + 6, derived.bytes().begin()));
  EXPECT_EQ(derived.bytes()[6] >> 4, 8);
  EXPECT_EQ(derived.bytes()[8] >> 6, 2);
}

}  // namespace
}  // namespace dovetail::core
