// Values in SQL statements and results, the same for both engines.
//
// Your own statements write parameters as $1, $2, … on both engines.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"

namespace dovetail {

using Bytes = std::vector<std::byte>;

/// A parameter of a statement. It is a view: valid as long as the argument it was made from.
class Parameter {
 public:
  using Variant = std::variant<std::nullptr_t, bool, std::int32_t, std::int64_t, double,
                               std::string_view, std::span<const std::byte>, Uuid, WallTime>;

  Parameter(std::nullptr_t) : value_(nullptr) {}
  Parameter(std::nullopt_t) : value_(nullptr) {}
  template <std::same_as<bool> Bool>  // and nothing that merely converts to bool, such as a pointer
  Parameter(Bool value) : value_(value) {}
  Parameter(double value) : value_(value) {}
  Parameter(const char* value) : value_(std::string_view{value}) {}
  Parameter(const std::string& value) : value_(std::string_view{value}) {}
  Parameter(std::string_view value) : value_(value) {}
  Parameter(std::span<const std::byte> value) : value_(value) {}
  Parameter(const Bytes& value) : value_(std::span<const std::byte>{value}) {}
  Parameter(const Uuid& value) : value_(value) {}
  Parameter(WallTime value) : value_(value) {}
  template <class Tag>
  Parameter(const Id<Tag>& value) : value_(value.uuid()) {}
  template <class Integer>
  requires(std::is_integral_v<Integer> && !std::is_same_v<Integer, bool> && sizeof(Integer) <= 8)
      Parameter(Integer value)
      : value_(number(value)) {}
  template <class T>
  requires(std::is_constructible_v<Parameter, const T&>) Parameter(const std::optional<T>& value)
      : value_(value ? Parameter(*value).value_ : Variant{nullptr}) {}

  [[nodiscard]] const Variant& get() const { return value_; }

 private:
  template <class Integer>
  static Variant number(Integer value) {
    if constexpr (sizeof(Integer) < 4 || std::is_same_v<Integer, std::int32_t>) {
      return static_cast<std::int32_t>(value);
    } else {
      if (!std::in_range<std::int64_t>(value))
        throw std::out_of_range("integer parameter above 2^63-1");
      return static_cast<std::int64_t>(value);
    }
  }
  Variant value_;
};

/// One field of a result. The alternative is the engine's type. SQLite has no bool, UUID or
/// timestamp types: it returns integers (microseconds since 1970 for instants) and 16-byte blobs.
using Value =
    std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Bytes, Uuid, WallTime>;

class Row {
 public:
  explicit Row(std::vector<Value> values) : values_(std::move(values)) {}

  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] const Value& at(std::size_t column) const { return values_.at(column); }
  [[nodiscard]] bool is_null(std::size_t column) const {
    return std::holds_alternative<std::nullptr_t>(at(column));
  }

  /// The field as `T`: bool, std::int64_t, double, std::string, Bytes, Uuid, WallTime, or an
  /// optional of one of them. Converts between the engines' representations. Throws
  /// InvalidOperation when the field is NULL or has another type.
  template <class T>
  [[nodiscard]] T get(std::size_t column) const {
    if constexpr (requires {
                    typename T::value_type;
                    T{std::nullopt};
                  }) {
      return is_null(column) ? T{} : T{get<typename T::value_type>(column)};
    } else {
      return convert(column, std::type_identity<T>{});
    }
  }

 private:
  [[nodiscard]] bool convert(std::size_t column, std::type_identity<bool>) const;
  [[nodiscard]] std::int64_t convert(std::size_t column, std::type_identity<std::int64_t>) const;
  [[nodiscard]] double convert(std::size_t column, std::type_identity<double>) const;
  [[nodiscard]] std::string convert(std::size_t column, std::type_identity<std::string>) const;
  [[nodiscard]] Bytes convert(std::size_t column, std::type_identity<Bytes>) const;
  [[nodiscard]] Uuid convert(std::size_t column, std::type_identity<Uuid>) const;
  [[nodiscard]] WallTime convert(std::size_t column, std::type_identity<WallTime>) const;

  std::vector<Value> values_;
};

using Rows = std::vector<Row>;

}  // namespace dovetail
