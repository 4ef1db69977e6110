#include "runtime/stream_lines.hpp"

#include <gmock/gmock.h>

namespace dovetail::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

DeliveryPtr of(const std::string& stream) {
  auto delivery = std::make_shared<Delivery>();
  if (!stream.empty()) delivery->claimed.message.stream = stream;
  return delivery;
}

TEST(StreamLines, ADeliveryWithoutAStreamNeverWaits) {
  StreamLines lines;
  EXPECT_TRUE(lines.admit(of("")));
  EXPECT_TRUE(lines.admit(of("")));
  EXPECT_EQ(lines.advance(*of("")), nullptr);
}

TEST(StreamLines, TheNextDeliveryOfAStreamFollowsTheOneBeforeIt) {
  StreamLines lines;
  const auto first = of("a");
  const auto second = of("a");
  const auto other = of("b");
  EXPECT_TRUE(lines.admit(first));
  EXPECT_FALSE(lines.admit(second));
  EXPECT_TRUE(lines.admit(other));
  EXPECT_FALSE(lines.is_behind(*first));
  EXPECT_TRUE(lines.is_behind(*second));
  EXPECT_EQ(lines.advance(*first), second);
  EXPECT_EQ(lines.advance(*second), nullptr);
  EXPECT_TRUE(lines.admit(of("a"))) << "the line is empty";
}

TEST(StreamLines, OnlyTheFrontLetsTheNextOneBegin) {
  StreamLines lines;
  const auto first = of("a");
  const auto second = of("a");
  lines.admit(first);
  lines.admit(second);
  EXPECT_EQ(lines.advance(*second), nullptr);
  EXPECT_TRUE(lines.is_behind(*second));
}

TEST(StreamLines, ACutTakesTheDeliveryAndThoseBehindIt) {
  StreamLines lines;
  const auto first = of("a");
  const auto second = of("a");
  const auto third = of("a");
  for (const auto& each : {first, second, third}) lines.admit(each);
  EXPECT_THAT(lines.remove_successors(*second), ElementsAre(third));
  EXPECT_EQ(lines.advance(*first), nullptr);
  EXPECT_THAT(lines.remove_successors(*second), IsEmpty());
}

TEST(StreamLines, WaitingDeliveriesOfAllStreamsAreTakenAndFrontsStay) {
  StreamLines lines;
  const auto front = of("a");
  const auto behind = of("a");
  const auto other = of("b");
  const auto behind_other = of("b");
  for (const auto& each : {front, behind, other, behind_other}) lines.admit(each);
  EXPECT_THAT(lines.take_waiting(), UnorderedElementsAre(behind, behind_other));
  EXPECT_FALSE(lines.admit(of("a"))) << "the front still runs";
}

}  // namespace
}  // namespace dovetail::runtime
