#include "postgres/params.hpp"

#include <bit>
#include <limits>

#include "postgres/oids.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::chrono::microseconds epoch_2000 = std::chrono::seconds{946'684'800};

std::string_view view(const Uuid& value) {
  return {reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size()};
}

void append_array_header(std::string& out, unsigned element_type, std::size_t size,
                         bool nulls = false) {
  append_integer<std::int32_t>(out, 1);  // dimensions
  append_integer<std::int32_t>(out,
                               nulls ? 1 : 0);  // 1: the elements may contain NULLs
  append_integer<std::uint32_t>(out, element_type);
  append_integer<std::int32_t>(out, static_cast<std::int32_t>(size));
  append_integer<std::int32_t>(out, 1);  // lower bound
}

}  // namespace

std::int64_t to_postgres_time(WallTime time) {
  // An earlier time than the first one that can be shifted is -infinity in PostgreSQL.
  if (time.time_since_epoch() < std::chrono::microseconds::min() + epoch_2000) {
    return std::numeric_limits<std::int64_t>::min();
  }
  return (time.time_since_epoch() - epoch_2000).count();
}

WallTime from_postgres_time(std::int64_t micros) {
  // The infinity of PostgreSQL, and every time beyond our calendar, is the end of our calendar.
  if (micros > (std::chrono::microseconds::max() - epoch_2000).count()) return WallTime::max();
  if (micros == std::numeric_limits<std::int64_t>::min()) return WallTime::min();
  return WallTime{std::chrono::microseconds{micros} + epoch_2000};
}

Params& Params::put(unsigned type, std::size_t offset, int format) {
  const auto length = buffer_.size() - offset;
  if (length > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw std::out_of_range("a parameter must not exceed 2 GiB");
  }
  entries_.push_back({type, offset, static_cast<int>(length), format});
  return *this;
}

Params& Params::add(std::nullptr_t) {
  entries_.push_back({oid::unknown, buffer_.size(), -1, 0});
  return *this;
}

Params& Params::add(bool value) {
  const auto offset = buffer_.size();
  buffer_ += value ? '\1' : '\0';
  return put(oid::boolean, offset, 1);
}

Params& Params::add(std::int32_t value) {
  const auto offset = buffer_.size();
  append_integer(buffer_, value);
  return put(oid::int4, offset, 1);
}

Params& Params::add(std::int64_t value) {
  const auto offset = buffer_.size();
  append_integer(buffer_, value);
  return put(oid::int8, offset, 1);
}

Params& Params::add(double value) {
  const auto offset = buffer_.size();
  append_integer(buffer_, std::bit_cast<std::uint64_t>(value));
  return put(oid::float8, offset, 1);
}

Params& Params::add(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    throw std::invalid_argument("a text parameter must not hold NUL: PostgreSQL's text cannot");
  }
  const auto offset = buffer_.size();
  buffer_ += text;
  put(oid::unknown, offset, 0);
  buffer_ += '\0';  // libpq expects NUL-terminated text parameters
  return *this;
}

Params& Params::add(std::span<const std::byte> bytes) {
  const auto offset = buffer_.size();
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return put(oid::bytea, offset, 1);
}

Params& Params::add(const Uuid& value) {
  const auto offset = buffer_.size();
  buffer_ += view(value);
  return put(oid::uuid, offset, 1);
}

Params& Params::add(WallTime value) {
  const auto offset = buffer_.size();
  append_integer(buffer_, to_postgres_time(value));
  return put(oid::timestamptz, offset, 1);
}

Params& Params::add(const Parameter& value) {
  return std::visit([this](const auto& held) -> Params& { return add(held); }, value.get());
}

Params& Params::add(std::span<const Uuid> values) {
  const auto offset = buffer_.size();
  append_array_header(buffer_, oid::uuid, values.size());
  for (const auto& value : values) {
    append_integer<std::int32_t>(buffer_, 16);
    buffer_ += view(value);
  }
  return put(oid::uuid_array, offset, 1);
}

Params& Params::add(std::span<const std::int64_t> values) {
  const auto offset = buffer_.size();
  append_array_header(buffer_, oid::int8, values.size());
  for (const auto value : values) {
    append_integer<std::int32_t>(buffer_, 8);
    append_integer(buffer_, value);
  }
  return put(oid::int8_array, offset, 1);
}

Params& Params::add(std::span<const RowAt> values) {
  const auto offset = buffer_.size();
  append_array_header(buffer_, oid::tid, values.size());
  for (const auto value : values) {
    append_integer<std::int32_t>(buffer_, 6);
    append_integer(buffer_, static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 16));
    append_integer(buffer_, static_cast<std::uint16_t>(value));
  }
  return put(oid::tid_array, offset, 1);
}

Params& Params::add(std::span<const std::optional<std::string_view>> values) {
  const auto offset = buffer_.size();
  append_array_header(buffer_, oid::text, values.size(), true);
  for (const auto& value : values) {
    append_integer<std::int32_t>(buffer_, value ? static_cast<std::int32_t>(value->size()) : -1);
    if (value) buffer_ += *value;
  }
  return put(oid::text_array, offset, 1);
}

Params& Params::add(std::span<const std::optional<WallTime>> values) {
  const auto offset = buffer_.size();
  append_array_header(buffer_, oid::timestamptz, values.size(), true);
  for (const auto& value : values) {
    append_integer<std::int32_t>(buffer_, value ? 8 : -1);
    if (value) append_integer(buffer_, to_postgres_time(*value));
  }
  return put(oid::timestamptz_array, offset, 1);
}

Params& Params::add(std::span<const std::optional<std::int64_t>> values) {
  const auto offset = buffer_.size();
  append_array_header(buffer_, oid::int8, values.size(), true);
  for (const auto& value : values) {
    append_integer<std::int32_t>(buffer_, value ? 8 : -1);
    if (value) append_integer(buffer_, *value);
  }
  return put(oid::int8_array, offset, 1);
}

Params::Arrays Params::arrays() const {
  Arrays arrays;
  for (const auto& entry : entries_) {
    arrays.types.push_back(entry.type);
    arrays.values.push_back(entry.length < 0 ? nullptr : buffer_.data() + entry.offset);
    arrays.lengths.push_back(entry.length < 0 ? 0 : entry.length);
    arrays.formats.push_back(entry.format);
  }
  return arrays;
}

}  // namespace dovetail::postgres
