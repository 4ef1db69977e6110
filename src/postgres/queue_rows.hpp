// Reads rows of a queue's statements, and writes parameters that its roles share.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "dovetail/queue.hpp"
#include "postgres/result.hpp"

namespace dovetail::postgres {

inline std::optional<std::int64_t> micros(std::optional<std::chrono::microseconds> duration) {
  return duration ? std::optional<std::int64_t>{duration->count()} : std::nullopt;
}

/// The count that a statement of one row and one column returned.
inline std::size_t count_of(const Result& result) {
  return static_cast<std::size_t>(result.integer(0, 0));
}

/// Reads the columns that claimed and stored messages share. They come first.
[[nodiscard]] Message read_message(const Result& result, int row);

}  // namespace dovetail::postgres
