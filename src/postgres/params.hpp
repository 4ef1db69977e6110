// Parameters in PostgreSQL's binary format.
//
// Text goes in text format without a declared type, so that a statement decides what it is: text,
// jsonb, an enum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/value.hpp"

namespace dovetail::postgres {

/// Appends `value` in network byte order.
template <class Integer>
void append_integer(std::string& out, Integer value) {
  std::array<char, sizeof(Integer)> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] =
        static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * (bytes.size() - 1 - i)) & 0xFF);
  }
  out.append(bytes.data(), bytes.size());
}

/// Microseconds since 2000-01-01, PostgreSQL's epoch.
[[nodiscard]] std::int64_t to_postgres_time(WallTime time);
[[nodiscard]] WallTime from_postgres_time(std::int64_t micros);

/// The place of a row, as PostgreSQL sends it: the number of the page, and in the last 16 bits the
/// place in the page. No row has the value zero.
enum class RowAt : std::int64_t {};

class Params {
 public:
  Params& add(std::nullptr_t);
  Params& add(bool value);
  Params& add(std::int32_t value);
  Params& add(std::int64_t value);
  Params& add(double value);
  Params& add(std::string_view text);
  Params& add(std::span<const std::byte> bytes);
  Params& add(const Uuid& value);
  Params& add(WallTime value);
  Params& add(const Parameter& value);
  Params& add(std::span<const Uuid> values);
  Params& add(std::span<const std::int64_t> values);
  Params& add(std::span<const RowAt> values);
  Params& add(std::span<const std::optional<std::string_view>> values);
  Params& add(std::span<const std::optional<WallTime>> values);
  Params& add(std::span<const std::optional<std::int64_t>> values);
  template <class T>
  Params& add(const std::optional<T>& value) {
    return value ? add(*value) : add(nullptr);
  }

  /// Reserves memory for that many bytes of values.
  void reserve(std::size_t bytes) { buffer_.reserve(bytes); }

  // The arrays that libpq takes. They are valid until the next add().
  [[nodiscard]] int count() const { return static_cast<int>(entries_.size()); }
  struct Arrays {
    std::vector<unsigned> types;
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;
  };
  [[nodiscard]] Arrays arrays() const;

 private:
  struct Entry {
    unsigned type;
    std::size_t offset;
    int length;  // negative: NULL
    int format;
  };
  Params& put(unsigned type, std::size_t offset, int format);

  std::string buffer_;
  std::vector<Entry> entries_;
};

}  // namespace dovetail::postgres
