// Reads rows of a queue's statements, and writes parameters that its roles share.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/headers.hpp"
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

/// Reads the columns that claimed and stored messages share.
template <class Column>
[[nodiscard]] Message read_message(const Result& result, int row) {
  Message message;
  message.id = MessageId{result.uuid(row, Column::id)};
  message.message_id = MessageId{result.uuid(row, Column::id)};
  message.topic = result.text(row, Column::topic);
  if (!result.is_null(row, Column::payload)) message.payload = result.text(row, Column::payload);
  message.correlation_id = result.text_or_null(row, Column::correlation_id);
  if (!result.is_null(row, Column::headers))
    message.headers = core::headers_from_json(result.bytes(row, Column::headers));
  message.created_at = result.time(row, Column::created_at);
  message.due_at = result.time_or_null(row, Column::due_at);
  message.expires_at = result.time_or_null(row, Column::expires_at);
  message.priority = static_cast<int>(result.integer(row, Column::priority));
  message.attempts = static_cast<int>(result.integer(row, Column::attempts));
  message.stages = Stages::from_bits(result.integer(row, Column::stages));
  return message;
}

}  // namespace dovetail::postgres
