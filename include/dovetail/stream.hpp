// Streams: messages that are handled in order.
//
//   platform.outbox().enqueue(tx, {.topic = "order.changed", .payload = …, .stream = "order-42"});
//
// Messages with the same stream, in one queue, are handled one after the other, in order, by one
// owner at a time, whatever their topics are. Different streams are handled in parallel. Messages
// without a stream are not affected.
//
// Guarantees
//   * Order: messages of one transaction are handled in the order of their enqueue calls. A message
//     that is enqueued after another one was committed is handled after it.
//   * Two messages of one stream are never handled at the same time, in any process, as long as
//     handlers end when their stop_token fires.
//   * A message that fails keeps its place: its successors wait for its next attempt. StreamFailure
//     decides what follows the last attempt.
//   * A stream without messages costs nothing: there is no list of streams.
// Not guaranteed
//   * An order between messages of concurrent transactions. They are handled as they become
//     visible.
//   * Exactly-once delivery: when a process dies, the messages that it has handled but not acked
//     are delivered again, in order.
//
// `due_at` of a message delays its successors. A message of a paused topic stops its stream.
// `priority` orders streams, not the messages of one stream. A dead letter that is replayed goes to
// the end of its stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"

namespace dovetail {

/// What happens to a message of a stream, and to the stream, after the message's last attempt.
enum class StreamFailure : std::uint8_t {
  /// The stream is blocked: the message keeps its place until an operator resumes or skips it.
  block = 0,
  park = 1,  ///< The message becomes a dead letter, and the stream continues.
  /// The message leaves the stream and is retried independently of it, with zero attempts.
  skip_order = 2,
};

[[nodiscard]] std::string_view to_string(StreamFailure failure);

enum class StreamState : std::uint8_t {
  ready = 0,    ///< It waits for a worker, or for the time of its first message.
  leased = 1,   ///< A worker handles it.
  blocked = 2,  ///< Its first message has failed permanently; see StreamFailure::block.
};

[[nodiscard]] std::string_view to_string(StreamState state);

/// A stream that has messages. The head is its first message.
struct StreamInfo {
  std::string stream{};
  StreamState state = StreamState::ready;
  std::int64_t messages = 0;  ///< Counted up to 1,000.
  std::optional<MessageId> head{};
  std::string head_topic{};
  int head_attempts = 0;
  std::optional<WallTime> next_attempt_at{};  ///< Of the head.
  std::optional<std::string> last_error{};    ///< Of the head.
  std::optional<WallTime> blocked_at{};
  std::optional<OwnerToken> owner{};
  std::optional<WallTime> lease_until{};
};

struct StreamPage {
  std::optional<std::string> after{};  ///< The last stream of the previous page.
  int size = 100;                      ///< 1 to 10,000.
  bool only_blocked = false;
};

}  // namespace dovetail
