#include "dovetail/value.hpp"

#include <cstring>

#include "dovetail/error.hpp"

namespace dovetail {
namespace {

constexpr const char* type_names[] = {"NULL", "bool",  "integer", "double",
                                      "text", "bytes", "uuid",    "timestamp"};

[[noreturn]] void wrong_type(std::size_t column, const Value& value, const char* wanted) {
  throw InvalidOperation("column " + std::to_string(column) + " is " + type_names[value.index()] +
                         ", not " + wanted);
}

}  // namespace

bool Row::convert(std::size_t column, std::type_identity<bool>) const {
  const auto& value = at(column);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number != 0;
  wrong_type(column, value, "bool");
}

std::int64_t Row::convert(std::size_t column, std::type_identity<std::int64_t>) const {
  const auto& value = at(column);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  wrong_type(column, value, "integer");
}

double Row::convert(std::size_t column, std::type_identity<double>) const {
  const auto& value = at(column);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return static_cast<double>(*number);
  wrong_type(column, value, "double");
}

std::string Row::convert(std::size_t column, std::type_identity<std::string>) const {
  const auto& value = at(column);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  wrong_type(column, value, "text");
}

Bytes Row::convert(std::size_t column, std::type_identity<Bytes>) const {
  const auto& value = at(column);
  if (const auto* bytes = std::get_if<Bytes>(&value)) return *bytes;
  wrong_type(column, value, "bytes");
}

Uuid Row::convert(std::size_t column, std::type_identity<Uuid>) const {
  const auto& value = at(column);
  if (const auto* uuid = std::get_if<Uuid>(&value)) return *uuid;
  if (const auto* bytes = std::get_if<Bytes>(&value); bytes != nullptr && bytes->size() == 16) {
    Uuid::Bytes raw{};
    std::memcpy(raw.data(), bytes->data(), raw.size());
    return Uuid{raw};
  }
  wrong_type(column, value, "uuid");
}

WallTime Row::convert(std::size_t column, std::type_identity<WallTime>) const {
  const auto& value = at(column);
  if (const auto* time = std::get_if<WallTime>(&value)) return *time;
  if (const auto* micros = std::get_if<std::int64_t>(&value))
    return WallTime{std::chrono::microseconds{*micros}};
  wrong_type(column, value, "timestamp");
}

}  // namespace dovetail
