#include "postgres/params.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postgres/oids.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using namespace std::string_literals;
using postgres::from_postgres_time;
using postgres::Params;
using postgres::to_postgres_time;
namespace oid = postgres::oid;

constexpr int text_format = 0;
constexpr int binary_format = 1;

struct Wire {
  unsigned type;
  int format;
  std::optional<std::string> value;

  friend bool operator==(const Wire&, const Wire&) = default;
};

void PrintTo(const Wire& wire, std::ostream* out) {
  *out << "type " << wire.type << ", format " << wire.format << ", "
       << ::testing::PrintToString(wire.value);
}

/// The values that libpq gets for parameter `index`.
Wire wire_of(const Params& params, std::size_t index) {
  const auto arrays = params.arrays();
  const auto* value = arrays.values.at(index);
  const auto length = static_cast<std::size_t>(arrays.lengths.at(index));
  return {arrays.types.at(index), arrays.formats.at(index),
          value == nullptr ? std::nullopt : std::optional{std::string{value, length}}};
}

template <class T>
Wire wire_of(const T& value) {
  Params params;
  params.add(value);
  return wire_of(params, 0);
}

Wire binary(unsigned type, const std::string& bytes) {
  return {type, binary_format, bytes};
}

const Uuid sample = *Uuid::parse("0190b8a2-7c3d-7e4f-8123-456789abcdef");
const auto sample_bytes = "\x01\x90\xB8\xA2\x7C\x3D\x7E\x4F\x81\x23\x45\x67\x89\xAB\xCD\xEF"s;

TEST(Params, SendInt32InFourBytesMostSignificantFirst) {
  EXPECT_EQ(wire_of(std::int32_t{0x01020304}), binary(oid::int4, "\x01\x02\x03\x04"s));
  EXPECT_EQ(wire_of(std::int32_t{-2}), binary(oid::int4, "\xFF\xFF\xFF\xFE"s));
  EXPECT_EQ(wire_of(std::numeric_limits<std::int32_t>::min()), binary(oid::int4, "\x80\0\0\0"s));
}

TEST(Params, SendInt64InEightBytesMostSignificantFirst) {
  EXPECT_EQ(wire_of(std::int64_t{0x0102030405060708}),
            binary(oid::int8, "\x01\x02\x03\x04\x05\x06\x07\x08"s));
  EXPECT_EQ(wire_of(std::int64_t{-1}), binary(oid::int8, std::string(8, '\xFF')));
  EXPECT_EQ(wire_of(std::numeric_limits<std::int64_t>::min()),
            binary(oid::int8, "\x80\0\0\0\0\0\0\0"s));
}

TEST(Params, SendDoubleAsItsIeeeBits) {
  EXPECT_EQ(wire_of(1.0), binary(oid::float8, "\x3F\xF0\0\0\0\0\0\0"s));
  EXPECT_EQ(wire_of(-2.5), binary(oid::float8, "\xC0\x04\0\0\0\0\0\0"s));
}

TEST(Params, SendBoolAsOneByte) {
  EXPECT_EQ(wire_of(true), binary(oid::boolean, "\x01"s));
  EXPECT_EQ(wire_of(false), binary(oid::boolean, "\0"s));
}

TEST(Params, SendUuidAsItsSixteenBytes) {
  EXPECT_EQ(wire_of(sample), binary(oid::uuid, sample_bytes));
}

TEST(Params, SendBytesAsTheyAre) {
  const std::array bytes{std::byte{0}, std::byte{255}, std::byte{'\''}};
  EXPECT_EQ(wire_of(std::span<const std::byte>{bytes}), binary(oid::bytea, "\0\xFF'"s));
}

TEST(Params, SendNoBytesAsAnEmptyValueNotAsNull) {
  EXPECT_EQ(wire_of(std::span<const std::byte>{}), binary(oid::bytea, ""));
}

TEST(Params, SendTextWithoutATypeAndInTextFormat) {
  EXPECT_EQ(wire_of(std::string_view{"it's"}), (Wire{oid::unknown, text_format, "it's"}));
  EXPECT_EQ(wire_of(std::string_view{}), (Wire{oid::unknown, text_format, ""}));
}

TEST(Params, EndEveryTextWithNul) {
  Params params;
  params.add(std::string_view{"one and more"}.substr(0, 3)).add(std::string_view{"two"});
  const auto arrays = params.arrays();
  EXPECT_STREQ(arrays.values[0], "one");
  EXPECT_STREQ(arrays.values[1], "two");
}

TEST(Params, SendNullWithoutAValue) {
  const Wire null{oid::unknown, text_format, std::nullopt};
  EXPECT_EQ(wire_of(nullptr), null);
  EXPECT_EQ(wire_of(std::optional<std::int64_t>{}), null);
  EXPECT_EQ(wire_of(std::optional<std::string_view>{}), null);
  EXPECT_EQ(wire_of(Parameter{nullptr}), null);
}

TEST(Params, SendAFilledOptionalAsWhatItHolds) {
  EXPECT_EQ(wire_of(std::optional{std::int64_t{1}}), wire_of(std::int64_t{1}));
  EXPECT_EQ(wire_of(std::optional{WallTime{5s}}), wire_of(WallTime{5s}));
}

TEST(Params, SendAParameterAsTheTypeItHolds) {
  const auto text = "text"s;
  const Bytes bytes{std::byte{1}};
  EXPECT_EQ(wire_of(Parameter{true}), wire_of(true));
  EXPECT_EQ(wire_of(Parameter{7}), wire_of(std::int32_t{7}));
  EXPECT_EQ(wire_of(Parameter{7L}), wire_of(std::int64_t{7}));
  EXPECT_EQ(wire_of(Parameter{0.5}), wire_of(0.5));
  EXPECT_EQ(wire_of(Parameter{text}), wire_of(std::string_view{text}));
  EXPECT_EQ(wire_of(Parameter{bytes}), wire_of(std::span<const std::byte>{bytes}));
  EXPECT_EQ(wire_of(Parameter{sample}), wire_of(sample));
  EXPECT_EQ(wire_of(Parameter{WallTime{5s}}), wire_of(WallTime{5s}));
}

TEST(Params, KeepTheirOrderAndDoNotTouchEachOther) {
  Params params;
  params.add(true).add(nullptr).add(std::string_view{"text"}).add(std::int32_t{1}).add(sample);
  for (int i = 0; i < 100; ++i) params.add(std::int64_t{i});
  ASSERT_EQ(params.count(), 105);
  EXPECT_EQ(wire_of(params, 0), wire_of(true));
  EXPECT_EQ(wire_of(params, 1), wire_of(nullptr));
  EXPECT_EQ(wire_of(params, 2), wire_of(std::string_view{"text"}));
  EXPECT_EQ(wire_of(params, 3), wire_of(std::int32_t{1}));
  EXPECT_EQ(wire_of(params, 4), wire_of(sample));
  EXPECT_EQ(wire_of(params, 104), wire_of(std::int64_t{99}));
}

/// The header of an array: one dimension, no NULLs, the element type, the size, lower bound 1.
std::string array_header(const std::string& element_type, const std::string& size) {
  return "\0\0\0\x01"s + "\0\0\0\0"s + element_type + size + "\0\0\0\x01"s;
}
const auto uuid_type = "\0\0\x0B\x86"s;  // 2950
const auto int8_type = "\0\0\0\x14"s;    // 20

TEST(Params, SendUuidArraysWithHeaderAndLengths) {
  const std::array ids{sample, Uuid{}};
  const auto expected = array_header(uuid_type, "\0\0\0\x02"s) + "\0\0\0\x10"s + sample_bytes +
                        "\0\0\0\x10"s + std::string(16, '\0');
  EXPECT_EQ(wire_of(std::span<const Uuid>{ids}), binary(oid::uuid_array, expected));
}

TEST(Params, SendInt8ArraysWithHeaderAndLengths) {
  const std::array<std::int64_t, 2> numbers{1, -1};
  const auto expected = array_header(int8_type, "\0\0\0\x02"s) + "\0\0\0\x08"s +
                        "\0\0\0\0\0\0\0\x01"s + "\0\0\0\x08"s + std::string(8, '\xFF');
  EXPECT_EQ(wire_of(std::span<const std::int64_t>{numbers}), binary(oid::int8_array, expected));
}

TEST(Params, SendAnEmptyArrayAsAHeaderOfSizeZero) {
  EXPECT_EQ(wire_of(std::span<const Uuid>{}),
            binary(oid::uuid_array, array_header(uuid_type, "\0\0\0\0"s)));
}

TEST(PostgresTime, CountsMicrosecondsFromTheYear2000) {
  const WallTime millennium{std::chrono::sys_days{std::chrono::year{2000} / 1 / 1}};
  EXPECT_EQ(to_postgres_time(millennium), 0);
  EXPECT_EQ(to_postgres_time(millennium + 1us), 1);
  EXPECT_EQ(to_postgres_time(WallTime{}), -946'684'800'000'000);
  EXPECT_EQ(from_postgres_time(0), millennium);
  EXPECT_EQ(from_postgres_time(-1), millennium - 1us);
}

TEST(PostgresTime, ComesBackAsTheSameInstant) {
  for (const auto time :
       {WallTime{}, WallTime{1'700'000'000'123'456us}, WallTime{-1us}, WallTime{-3'000'000'000s}}) {
    EXPECT_EQ(from_postgres_time(to_postgres_time(time)), time) << to_string(time);
  }
}

TEST(PostgresTime, IsSentAsTimestamptz) {
  const WallTime second_later{std::chrono::sys_days{std::chrono::year{2000} / 1 / 1} + 1s};
  EXPECT_EQ(wire_of(second_later), binary(oid::timestamptz, "\0\0\0\0\0\x0F\x42\x40"s));
}

TEST(PostgresTime, InfinityDoesNotBecomeThePast) {
  EXPECT_GT(from_postgres_time(std::numeric_limits<std::int64_t>::max()), from_postgres_time(0));
}

TEST(PostgresTime, TheEarliestInstantDoesNotBecomeTheFuture) {
  EXPECT_LT(to_postgres_time(WallTime::min()), 0);
}

}  // namespace
