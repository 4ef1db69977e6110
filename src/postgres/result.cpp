#include "postgres/result.hpp"

#include <bit>
#include <charconv>
#include <cstring>

#include "core/assert.hpp"
#include "dovetail/error.hpp"
#include "postgres/oids.hpp"
#include "postgres/params.hpp"

namespace dovetail::postgres {
namespace {

std::int64_t read_integer(std::string_view bytes) {
  DOVETAIL_ASSERT(bytes.size() == 2 || bytes.size() == 4 || bytes.size() == 6 || bytes.size() == 8);
  std::uint64_t value = 0;
  for (unsigned char byte : bytes) value = value << 8 | byte;
  const auto shift = 64 - 8 * bytes.size();
  return static_cast<std::int64_t>(value << shift) >> shift;
}

Bytes to_bytes(std::string_view bytes) {
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

}  // namespace

bool Result::failed() const {
  switch (status()) {
    case PGRES_FATAL_ERROR:
    case PGRES_BAD_RESPONSE:
    case PGRES_NONFATAL_ERROR:
    case PGRES_PIPELINE_ABORTED:
      return true;
    default:
      return false;
  }
}

std::size_t Result::affected() const {
  const std::string_view text{PQcmdTuples(get())};
  std::size_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

std::string_view Result::bytes(int row, int column) const {
  return {PQgetvalue(get(), row, column),
          static_cast<std::size_t>(PQgetlength(get(), row, column))};
}

std::int64_t Result::integer(int row, int column) const {
  return read_integer(bytes(row, column));
}

bool Result::boolean(int row, int column) const {
  return bytes(row, column) != std::string_view{"\0", 1};
}

Uuid Result::uuid(int row, int column) const {
  const auto raw = bytes(row, column);
  Uuid::Bytes value{};
  DOVETAIL_ASSERT(raw.size() == value.size());
  std::memcpy(value.data(), raw.data(), value.size());
  return Uuid{value};
}

WallTime Result::time(int row, int column) const {
  return from_postgres_time(integer(row, column));
}

Value Result::value(int row, int column) const {
  if (is_null(row, column)) return nullptr;
  const auto type = PQftype(get(), column);
  switch (type) {
    case oid::boolean:
      return boolean(row, column);
    case oid::int2:
    case oid::int4:
    case oid::int8:
      return integer(row, column);
    case oid::oid:
      return std::int64_t{static_cast<std::uint32_t>(integer(row, column))};
    case oid::float4:
      return double{std::bit_cast<float>(static_cast<std::uint32_t>(integer(row, column)))};
    case oid::float8:
      return std::bit_cast<double>(integer(row, column));
    case oid::text:
    case oid::varchar:
    case oid::bpchar:
    case oid::single_char:
    case oid::name:
    case oid::json:
    case oid::unknown_literal:
      return text(row, column);
    case oid::jsonb:
      return std::string{bytes(row, column).substr(1)};  // after a version byte
    case oid::bytea:
      return to_bytes(bytes(row, column));
    case oid::uuid:
      return uuid(row, column);
    case oid::timestamptz:
      return time(row, column);
    default:
      throw InvalidOperation("column " + std::string{PQfname(get(), column)} + " has a type (oid " +
                             std::to_string(type) +
                             ") that Dovetail does not decode: cast it to text in the query");
  }
}

Rows Result::to_rows() const {
  Rows rows;
  rows.reserve(static_cast<std::size_t>(this->rows()));
  for (int row = 0; row < this->rows(); ++row) {
    std::vector<Value> values;
    values.reserve(static_cast<std::size_t>(columns()));
    for (int column = 0; column < columns(); ++column) values.push_back(value(row, column));
    rows.emplace_back(std::move(values));
  }
  return rows;
}

}  // namespace dovetail::postgres
