#include "postgres/queue_rows.hpp"

#include "core/headers.hpp"

namespace dovetail::postgres {

Message read_message(const Result& result, int row) {
  Message message;
  message.id = MessageId{result.uuid(row, 0)};
  message.message_id = MessageId{result.uuid(row, 0)};
  message.topic = result.text(row, 1);
  if (!result.is_null(row, 2)) message.payload = result.text(row, 2);
  message.correlation_id = result.text_or_null(row, 3);
  if (!result.is_null(row, 4)) message.headers = core::headers_from_json(result.bytes(row, 4));
  message.created_at = result.time(row, 5);
  message.due_at = result.time_or_null(row, 6);
  message.expires_at = result.time_or_null(row, 7);
  message.priority = static_cast<int>(result.integer(row, 8));
  message.attempts = static_cast<int>(result.integer(row, 9));
  return message;
}

}  // namespace dovetail::postgres
