#include "dovetail/ids.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "support/process.hpp"

namespace {

using namespace dovetail;
using ::testing::Each;
using ::testing::Gt;

constexpr const char* sample_text = "0190b8a2-7c3d-7e4f-8123-456789abcdef";

int version_of(const Uuid& id) {
  return id.bytes()[6] >> 4;
}
int variant_of(const Uuid& id) {
  return id.bytes()[8] >> 6;
}

std::chrono::milliseconds time_of(const Uuid& id) {
  std::int64_t value = 0;
  for (int i = 0; i < 6; ++i) value = value << 8 | id.bytes()[i];
  return std::chrono::milliseconds{value};
}

std::chrono::milliseconds unix_time() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

std::vector<Uuid> draw_ordered(std::size_t count) {
  std::vector<Uuid> ids(count);
  std::ranges::generate(ids, &Uuid::v7);
  return ids;
}

bool grows_strictly(const std::vector<Uuid>& ids) {
  return std::ranges::adjacent_find(ids, std::greater_equal<>{}) == ids.end();
}

TEST(Uuid, VersionSevenCarriesVersionAndVariant) {
  for (const auto& id : draw_ordered(1'000)) {
    ASSERT_EQ(version_of(id), 7);
    ASSERT_EQ(variant_of(id), 0b10);
  }
}

TEST(Uuid, VersionSevenGrowsStrictly) {
  // More than the 4096 values of the counter of one millisecond.
  EXPECT_TRUE(grows_strictly(draw_ordered(100'000)));
}

TEST(Uuid, VersionSevenGrowsStrictlyAcrossThreads) {
  constexpr std::size_t threads = 8;
  constexpr std::size_t per_thread = 5'000;
  std::array<std::vector<Uuid>, threads> drawn;
  {
    std::latch together{threads};
    std::vector<std::jthread> drawers;
    for (auto& ids : drawn) {
      drawers.emplace_back([&] {
        together.arrive_and_wait();
        ids = draw_ordered(per_thread);
      });
    }
  }
  std::unordered_set<Uuid> all;
  for (const auto& ids : drawn) {
    EXPECT_TRUE(grows_strictly(ids));
    all.insert(ids.begin(), ids.end());
  }
  EXPECT_EQ(all.size(), threads * per_thread);
}

TEST(Uuid, VersionSevenOfOneThreadIsFollowedByGreaterOnesOfAnother) {
  const auto before = Uuid::v7();
  std::vector<Uuid> elsewhere;
  std::jthread{[&] { elsewhere = draw_ordered(100); }}.join();
  EXPECT_THAT(elsewhere, Each(Gt(before)));
  EXPECT_GT(Uuid::v7(), elsewhere.back());
}

TEST(Uuid, VersionSevenStartsWithTheUnixTimeInMilliseconds) {
  const auto before = unix_time();
  const auto time = time_of(Uuid::v7());
  // The counter of a busy process may be some milliseconds ahead of the clock.
  EXPECT_GE(time, before);
  EXPECT_LE(time, unix_time() + std::chrono::minutes{1});
}

TEST(Uuid, VersionSevenDrawsItsTailAnewForEveryId) {
  // A forked child continues with the prefix of its parent. Only the tails of their ids differ.
  std::unordered_set<std::uint64_t> tails;
  for (const auto& id : draw_ordered(1'000)) {
    std::uint64_t tail = 0;
    std::memcpy(&tail, id.bytes().data() + 8, sizeof tail);
    tails.insert(tail);
  }
  EXPECT_EQ(tails.size(), 1'000U);
}

TEST(Uuid, RandomCarriesVersionFourAndVariant) {
  for (int i = 0; i < 1'000; ++i) {
    const auto id = Uuid::random();
    ASSERT_EQ(version_of(id), 4);
    ASSERT_EQ(variant_of(id), 0b10);
  }
}

TEST(Uuid, RandomOnesDiffer) {
  std::unordered_set<Uuid> seen;
  for (int i = 0; i < 1'000; ++i) seen.insert(Uuid::random());
  EXPECT_EQ(seen.size(), 1'000U);
}

/// Returns the ids that a forked child generates. The pipe is large enough for all of them.
std::vector<Uuid> draw_in_child(std::size_t count, const std::function<void()>& meanwhile) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe failed");
  dovetail::testing::ChildProcess child([&] {
    for (const auto& id : draw_ordered(count)) {
      if (::write(ends[1], id.bytes().data(), 16) != 16) throw std::runtime_error("write failed");
    }
  });
  ::close(ends[1]);
  meanwhile();
  std::vector<Uuid> ids;
  for (Uuid::Bytes bytes{}; ::read(ends[0], bytes.data(), bytes.size()) == 16;)
    ids.emplace_back(bytes);
  ::close(ends[0]);
  if (child.wait() != 0) throw std::runtime_error("the child failed");
  return ids;
}

TEST(Uuid, ParentAndChildDrawDifferentIdsAfterFork) {
  std::vector<Uuid> own;
  const auto theirs = draw_in_child(1'000, [&] { own = draw_ordered(1'000); });
  std::unordered_set<Uuid> all{own.begin(), own.end()};
  all.insert(theirs.begin(), theirs.end());
  EXPECT_EQ(theirs.size(), 1'000U);
  EXPECT_EQ(all.size(), 2'000U);
}

TEST(Uuid, AForkedChildGoesOnAboveItsParentsLastId) {
  const auto last = Uuid::v7();
  const auto theirs = draw_in_child(100, [] {});
  ASSERT_EQ(theirs.size(), 100U);
  EXPECT_TRUE(grows_strictly(theirs));
  EXPECT_GT(theirs.front(), last);
}

TEST(Uuid, PrintsItsBytesInOrderAndLowerCase) {
  const Uuid id{Uuid::Bytes{0x01, 0x90, 0xB8, 0xA2, 0x7C, 0x3D, 0x7E, 0x4F, 0x81, 0x23, 0x45, 0x67,
                            0x89, 0xAB, 0xCD, 0xEF}};
  EXPECT_EQ(id.to_string(), sample_text);
}

TEST(Uuid, ParseReadsWhatToStringWrote) {
  for (const auto& id : {Uuid{}, Uuid::v7(), Uuid::random()})
    EXPECT_EQ(Uuid::parse(id.to_string()), id);
}

TEST(Uuid, ParseAcceptsUpperAndMixedCase) {
  const auto id = Uuid::parse(sample_text);
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(Uuid::parse("0190B8A2-7C3D-7E4F-8123-456789ABCDEF"), id);
  EXPECT_EQ(Uuid::parse("0190B8a2-7c3D-7e4f-8123-456789AbCdEf"), id);
}

TEST(Uuid, ParseRefusesEveryOtherLength) {
  const std::string text = sample_text;
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_EQ(Uuid::parse(text.substr(0, length)), std::nullopt);
  EXPECT_EQ(Uuid::parse(text + "0"), std::nullopt);
  EXPECT_EQ(Uuid::parse(text + " "), std::nullopt);
}

TEST(Uuid, ParseRefusesOtherFormsOfAUuid) {
  for (const auto* text :
       {"{0190b8a2-7c3d-7e4f-8123-456789abcdef}", "{0190b8a2-7c3d-7e4f-8123-456789abcd}",
        "urn:uuid:0190b8a2-7c3d-7e4f-8123-456789abcdef", "0190b8a27c3d7e4f8123456789abcdef",
        "0190b8a2-7c3d-7e4f-8123456789abcdef", "0190b8a2_7c3d_7e4f_8123_456789abcdef"}) {
    EXPECT_EQ(Uuid::parse(text), std::nullopt) << text;
  }
}

TEST(Uuid, ParseRefusesAHyphenInTheWrongPlace) {
  for (const auto* text :
       {"0190b8a27-c3d-7e4f-8123-456789abcdef", "0190b8a2-7c3d7-e4f-8123-456789abcdef",
        "0190b8a2-7c3d-7e4f8-123-456789abcdef", "0190b8a2-7c3d-7e4f-81234-56789abcdef",
        "0190b8a2-7c3d-7e4f-8123-4567-9abcdef", "-190b8a2-7c3d-7e4f-8123-456789abcdef",
        "0190b8a2-7c3d-7e4f-8123-456789abcde-"}) {
    EXPECT_EQ(Uuid::parse(text), std::nullopt) << text;
  }
}

TEST(Uuid, ParseRefusesWhatIsNoDigitInEveryPlace) {
  const std::string good = sample_text;
  for (std::size_t place = 0; place < good.size(); ++place) {
    for (const char c : {'g', 'G', ' ', '+', '/', ':', '@', '`', 'x', '\0', '\x80', '\xFF'}) {
      auto text = good;
      text[place] = c;
      EXPECT_EQ(Uuid::parse(text), std::nullopt) << ::testing::PrintToString(text);
    }
  }
}

TEST(Uuid, ParseRefusesADigitInPlaceOfAHyphen) {
  for (const std::size_t place : {8, 13, 18, 23}) {
    std::string text = sample_text;
    text[place] = '0';
    EXPECT_EQ(Uuid::parse(text), std::nullopt) << text;
  }
}

TEST(Uuid, NilIsAllZeroAndTheLeast) {
  EXPECT_TRUE(Uuid{}.is_nil());
  EXPECT_EQ(Uuid{}.to_string(), "00000000-0000-0000-0000-000000000000");
  EXPECT_FALSE(Uuid::v7().is_nil());
  EXPECT_FALSE(Uuid::random().is_nil());
  EXPECT_LT(Uuid{}, Uuid::random());
  EXPECT_TRUE(JoinId{}.is_nil());
  EXPECT_FALSE(JoinId::generate().is_nil());
}

TEST(Uuid, OrdersByItsTextsOrder) {
  std::vector<Uuid> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(Uuid::random());
  std::ranges::sort(ids);
  EXPECT_TRUE(std::ranges::is_sorted(ids, {}, &Uuid::to_string));
}

TEST(Uuid, HashDependsOnBothHalves) {
  const std::hash<Uuid> hash;
  Uuid::Bytes high{};
  Uuid::Bytes low{};
  high[0] = 1;
  low[15] = 1;
  const std::unordered_set<std::size_t> hashes{hash(Uuid{}), hash(Uuid{high}), hash(Uuid{low})};
  EXPECT_EQ(hashes.size(), 3U);
}

using AllIds =
    std::tuple<MessageId, JoinId, TimerId, JobId, JobRunId, StreamId, OwnerToken, InstanceId>;

template <class A, class B>
constexpr bool strangers =
    !std::is_same_v<A, B> && !std::is_convertible_v<A, B> && !std::is_constructible_v<A, B> &&
    !std::is_assignable_v<A&, B> && !std::equality_comparable_with<A, B>;

template <class Id>
constexpr bool wraps_uuid_explicitly =
    std::is_constructible_v<Id, Uuid> && !std::is_convertible_v<Uuid, Id> &&
    !std::is_convertible_v<Id, Uuid> && !std::is_constructible_v<Uuid, Id> &&
    !std::is_assignable_v<Id&, Uuid>;

template <class... Ids>
constexpr bool explicit_all(std::type_identity<std::tuple<Ids...>>) {
  return (wraps_uuid_explicitly<Ids> && ...);
}

/// The number of types that do not convert to or from `A`: all except `A` itself.
template <class A, class... Ids>
constexpr std::size_t strangers_of(std::type_identity<std::tuple<Ids...>>) {
  return (std::size_t{0} + ... + std::size_t{strangers<A, Ids>});
}

template <class... Ids>
constexpr bool strangers_all(std::type_identity<std::tuple<Ids...>> ids) {
  return ((strangers_of<Ids>(ids) == sizeof...(Ids) - 1) && ...);
}

static_assert(strangers<JoinId, TimerId>);
static_assert(strangers_all(std::type_identity<AllIds>{}),
              "an id type converts into another, or is another");
static_assert(explicit_all(std::type_identity<AllIds>{}),
              "an id type converts from or into a bare Uuid");
static_assert(!std::is_constructible_v<JoinId, const char*> &&
              !std::is_constructible_v<JoinId, std::string>);

TEST(Id, KeepsTheUuidItWasMadeFrom) {
  const auto value = Uuid::v7();
  const JoinId id{value};
  EXPECT_EQ(id.uuid(), value);
  EXPECT_EQ(id.to_string(), value.to_string());
  EXPECT_EQ(JoinId::parse(id.to_string()), id);
  EXPECT_EQ(JoinId::parse("no id"), std::nullopt);
}

TEST(Id, OfARowIsOrderedAndOfAWorkerUnpredictable) {
  EXPECT_EQ(version_of(MessageId::generate().uuid()), 7);
  EXPECT_EQ(version_of(MessageId::generate().uuid()), 7);
  EXPECT_EQ(version_of(OwnerToken::generate().uuid()), 4);
  EXPECT_EQ(version_of(InstanceId::generate().uuid()), 7);
}

TEST(Id, IsAKeyOfUnorderedContainers) {
  const auto id = MessageId::generate();
  std::unordered_set<MessageId> set{id, MessageId::generate(), id};
  EXPECT_EQ(set.size(), 2U);
  EXPECT_TRUE(set.contains(MessageId{id.uuid()}));
  std::unordered_map<Uuid, int> map{{id.uuid(), 1}};
  EXPECT_FALSE(map.contains(Uuid{}));
  EXPECT_EQ(map.at(id.uuid()), 1);
}

}  // namespace
