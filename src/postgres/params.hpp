// Parameters in PostgreSQL's binary format.
//
// Text goes in text format without a declared type, so that a statement decides what it is: text, jsonb, an
// enum.
#pragma once

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
  for (int shift = static_cast<int>(sizeof(Integer)) * 8 - 8; shift >= 0; shift -= 8) {
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> shift & 0xFF);
  }
}

/// Microseconds since 2000-01-01, PostgreSQL's epoch.
[[nodiscard]] std::int64_t to_postgres_time(WallTime time);
[[nodiscard]] WallTime from_postgres_time(std::int64_t micros);

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
  Params& add(std::span<const std::optional<std::string_view>> values);
  Params& add(std::span<const std::optional<WallTime>> values);
  template <class T>
  Params& add(const std::optional<T>& value) {
    return value ? add(*value) : add(nullptr);
  }

  /// Makes room for so many bytes of values.
  void reserve(std::size_t bytes) { buffer_.reserve(bytes); }

  // As libpq wants them; valid until the next add().
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
