// Values of single fields. An absent value is null.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"

namespace dovetail::json {

using nlohmann::ordered_json;

inline ordered_json or_null(const std::optional<std::string>& text) {
  return text ? ordered_json(*text) : ordered_json();
}

inline ordered_json or_null(const std::optional<WallTime>& time) {
  return time ? ordered_json(to_string(*time)) : ordered_json();
}

template <class Tag>
ordered_json or_null(const std::optional<Id<Tag>>& id) {
  return id ? ordered_json(id->to_string()) : ordered_json();
}

inline std::int64_t milliseconds(std::chrono::microseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace dovetail::json
