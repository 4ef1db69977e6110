#include "dovetail/value.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dovetail/error.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using namespace std::string_literals;
using ::testing::HasSubstr;

/// The value in a parameter. Throws if the parameter holds another alternative.
template <class Held>
Held held(const Parameter& parameter) {
  return std::get<Held>(parameter.get());
}

bool is_null(const Parameter& parameter) {
  return std::holds_alternative<std::nullptr_t>(parameter.get());
}

Bytes bytes_of(const std::vector<int>& values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Parameter, OfUpToFourSignedBytesIsInt32) {
  EXPECT_EQ(held<std::int32_t>(-5), -5);
  EXPECT_EQ(held<std::int32_t>(std::numeric_limits<std::int32_t>::min()),
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(held<std::int32_t>(std::int8_t{-1}), -1);
  EXPECT_EQ(held<std::int32_t>(std::uint8_t{255}), 255);
  EXPECT_EQ(held<std::int32_t>(std::int16_t{-300}), -300);
  EXPECT_EQ(held<std::int32_t>(std::uint16_t{65'535}), 65'535);
}

TEST(Parameter, OfWiderIntegersIsInt64) {
  EXPECT_EQ(held<std::int64_t>(-5L), -5);
  EXPECT_EQ(held<std::int64_t>(5LL), 5);
  EXPECT_EQ(held<std::int64_t>(std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(held<std::int64_t>(std::numeric_limits<std::uint32_t>::max()), 4'294'967'295);
  EXPECT_EQ(held<std::int64_t>(std::size_t{7}), 7);
}

TEST(Parameter, RefusesUnsignedBeyondTheLargestInt64) {
  const std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(held<std::int64_t>(largest), std::numeric_limits<std::int64_t>::max());
  EXPECT_THROW(Parameter(largest + 1), std::out_of_range);
  EXPECT_THROW(Parameter(std::numeric_limits<std::uint64_t>::max()), std::out_of_range);
  EXPECT_THROW(Parameter(std::optional{largest + 1}), std::out_of_range);
}

TEST(Parameter, OfBoolIsBool) {
  EXPECT_EQ(held<bool>(true), true);
  EXPECT_EQ(held<bool>(false), false);
}

TEST(Parameter, OfFloatingPointIsDouble) {
  EXPECT_EQ(held<double>(0.1), 0.1);
  EXPECT_EQ(held<double>(0.5F), 0.5);
}

TEST(Parameter, OfEveryKindOfStringViewsItsText) {
  const auto text = "with \0 in it"s;
  char array[] = "array";
  EXPECT_EQ(held<std::string_view>("literal"), "literal");
  EXPECT_EQ(held<std::string_view>(array), "array");
  EXPECT_EQ(held<std::string_view>(text), text);
  EXPECT_EQ(held<std::string_view>(std::string_view{text}), text);
  EXPECT_EQ(held<std::string_view>(text).data(), text.data());
  EXPECT_EQ(held<std::string_view>(""), "");
}

TEST(Parameter, OfBytesViewsThem) {
  const auto bytes = bytes_of({1, 0, 255});
  EXPECT_EQ(held<std::span<const std::byte>>(bytes).data(), bytes.data());
  EXPECT_EQ(held<std::span<const std::byte>>(bytes).size(), 3U);
  EXPECT_EQ(held<std::span<const std::byte>>(std::span<const std::byte>{bytes}.first(2)).size(),
            2U);
}

TEST(Parameter, OfAnIdIsItsUuid) {
  const auto uuid = Uuid::v7();
  EXPECT_EQ(held<Uuid>(uuid), uuid);
  EXPECT_EQ(held<Uuid>(MessageId{uuid}), uuid);
  EXPECT_EQ(held<Uuid>(OwnerToken{uuid}), uuid);
}

TEST(Parameter, OfAnInstantIsThatInstant) {
  EXPECT_EQ(held<WallTime>(WallTime{5s}), WallTime{5s});
}

TEST(Parameter, OfNothingIsNull) {
  EXPECT_TRUE(is_null(nullptr));
  EXPECT_TRUE(is_null(std::nullopt));
  EXPECT_TRUE(is_null(std::optional<int>{}));
  EXPECT_TRUE(is_null(std::optional<bool>{}));
  EXPECT_TRUE(is_null(std::optional<std::string>{}));
  EXPECT_TRUE(is_null(std::optional<JoinId>{}));
  EXPECT_TRUE(is_null(std::optional<WallTime>{}));
}

TEST(Parameter, OfAFilledOptionalIsWhatItHolds) {
  const std::optional text{"text"s};
  const auto id = JoinId::generate();
  EXPECT_EQ(held<std::int32_t>(std::optional{0}), 0);
  EXPECT_EQ(held<std::int64_t>(std::optional{7L}), 7);
  EXPECT_EQ(held<bool>(std::optional{false}), false);
  EXPECT_EQ(held<std::string_view>(text).data(), text->data());
  EXPECT_EQ(held<Uuid>(std::optional{id}), id.uuid());
  EXPECT_EQ(held<WallTime>(std::optional{WallTime{1s}}), WallTime{1s});
}

TEST(Parameter, DoesNotTakeAPointerForABool) {
  EXPECT_FALSE((std::is_constructible_v<Parameter, const void*>));
  EXPECT_FALSE(
      (std::is_constructible_v<Parameter, const unsigned char*>));  // what sqlite3_column_text()
                                                                    // returns
  EXPECT_FALSE((std::is_constructible_v<Parameter, const int*>));
}

Row row_of(Value value) {
  return Row{{std::move(value)}};
}

template <class T>
T get(Value value) {
  return row_of(std::move(value)).get<T>(0);
}

const Uuid some_uuid = *Uuid::parse("0190b8a2-7c3d-7e4f-8123-456789abcdef");

Bytes some_bytes() {
  Bytes bytes;
  for (const auto byte : some_uuid.bytes()) bytes.push_back(static_cast<std::byte>(byte));
  return bytes;
}

TEST(Row, GivesEveryTypeAsItself) {
  EXPECT_EQ(get<bool>(true), true);
  EXPECT_EQ(get<std::int64_t>(std::int64_t{-7}), -7);
  EXPECT_EQ(get<double>(0.5), 0.5);
  EXPECT_EQ(get<std::string>("text"s), "text");
  EXPECT_EQ(get<Bytes>(bytes_of({1, 2})), bytes_of({1, 2}));
  EXPECT_EQ(get<Uuid>(some_uuid), some_uuid);
  EXPECT_EQ(get<WallTime>(WallTime{5s}), WallTime{5s});
}

TEST(Row, ReadsWhatSqliteSpellsDifferently) {
  EXPECT_EQ(get<bool>(std::int64_t{0}), false);
  EXPECT_EQ(get<bool>(std::int64_t{1}), true);
  EXPECT_EQ(get<double>(std::int64_t{3}), 3.0);
  EXPECT_EQ(get<Uuid>(some_bytes()), some_uuid);
  EXPECT_EQ(get<WallTime>(std::int64_t{-1}), WallTime{-1us});
}

TEST(Row, GivesNullAsAnEmptyOptionalOnly) {
  EXPECT_EQ(get<std::optional<std::int64_t>>(nullptr), std::nullopt);
  EXPECT_EQ(get<std::optional<std::string>>(nullptr), std::nullopt);
  EXPECT_EQ(get<std::optional<Bytes>>(nullptr), std::nullopt);
  EXPECT_EQ(get<std::optional<Uuid>>(nullptr), std::nullopt);
  EXPECT_THROW(get<bool>(nullptr), InvalidOperation);
  EXPECT_THROW(get<std::int64_t>(nullptr), InvalidOperation);
  EXPECT_THROW(get<double>(nullptr), InvalidOperation);
  EXPECT_THROW(get<std::string>(nullptr), InvalidOperation);
  EXPECT_THROW(get<Bytes>(nullptr), InvalidOperation);
  EXPECT_THROW(get<Uuid>(nullptr), InvalidOperation);
  EXPECT_THROW(get<WallTime>(nullptr), InvalidOperation);
}

TEST(Row, GivesAValueAsAFilledOptional) {
  EXPECT_EQ(get<std::optional<std::int64_t>>(std::int64_t{0}), 0);
  EXPECT_EQ(get<std::optional<bool>>(std::int64_t{0}), false);
  EXPECT_EQ(get<std::optional<std::string>>(""s), "");
  EXPECT_EQ(get<std::optional<Uuid>>(some_bytes()), some_uuid);
}

TEST(Row, RefusesToConvertBetweenUnlikeTypes) {
  EXPECT_THROW(get<bool>("true"s), InvalidOperation);
  EXPECT_THROW(get<bool>(1.0), InvalidOperation);
  EXPECT_THROW(get<std::int64_t>(true), InvalidOperation);
  EXPECT_THROW(get<std::int64_t>(1.0), InvalidOperation);
  EXPECT_THROW(get<std::int64_t>("1"s), InvalidOperation);
  EXPECT_THROW(get<double>("1.0"s), InvalidOperation);
  EXPECT_THROW(get<std::string>(std::int64_t{1}), InvalidOperation);
  EXPECT_THROW(get<std::string>(bytes_of({65})), InvalidOperation);
  EXPECT_THROW(get<Bytes>("A"s), InvalidOperation);
  EXPECT_THROW(get<Uuid>(some_uuid.to_string()), InvalidOperation);
  EXPECT_THROW(get<WallTime>(1.0), InvalidOperation);
  EXPECT_THROW(get<std::optional<std::int64_t>>("1"s), InvalidOperation);
}

TEST(Row, TakesOnlySixteenBytesForAUuid) {
  for (const std::size_t size : {0U, 15U, 17U})
    EXPECT_THROW(get<Uuid>(Bytes(size)), InvalidOperation) << size;
}

TEST(Row, NamesColumnAndTypesInItsRefusal) {
  const Row row{{std::int64_t{1}, nullptr}};
  try {
    static_cast<void>(row.get<std::string>(1));
    FAIL() << "NULL is no text";
  } catch (const InvalidOperation& error) {
    EXPECT_THAT(error.what(), HasSubstr("column 1"));
    EXPECT_THAT(error.what(), HasSubstr("NULL"));
    EXPECT_THAT(error.what(), HasSubstr("text"));
  }
}

TEST(Row, KnowsItsSizeAndItsNulls) {
  const Row row{{nullptr, ""s}};
  EXPECT_EQ(row.size(), 2U);
  EXPECT_TRUE(row.is_null(0));
  EXPECT_FALSE(row.is_null(1));
}

TEST(Row, RefusesAColumnItDoesNotHave) {
  const auto row = row_of(true);
  EXPECT_THROW(static_cast<void>(row.at(1)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(row.is_null(1)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(row.get<bool>(1)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(row.get<std::optional<bool>>(1)), std::out_of_range);
}

}  // namespace
