// Filters and pages of WorkQueue::messages(), which lists messages in every state, and the result
// of WorkQueue::topics().
//
// Guarantees
//   * Each call reads a limited number of messages, whatever the size of the queue. A result says
//     when it is incomplete (`cut`), and continues with the next call.
//   * A page begins behind the last message of the previous page. New messages shift nothing.
// Not guaranteed
//   * A message that changes its state between two calls may be listed twice or not at all.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"

namespace dovetail {

/// The state of a message as QueueCounts counts it. MessageStatus is what is stored: `scheduled`
/// and `paused` follow from the time and from the paused topics.
enum class MessageState : std::uint8_t {
  ready = 0,        ///< Due now.
  scheduled = 1,    ///< Not due yet, including messages that wait for a retry.
  in_progress = 2,  ///< Leased by a worker.
  done = 3,
  failed = 4,  ///< A dead letter.
  paused = 5,  ///< Its topic is paused.
};

[[nodiscard]] std::string_view to_string(MessageState state);
/// The state of this name, or nullopt.
[[nodiscard]] std::optional<MessageState> message_state(std::string_view name);

/// Selects messages. A message must match every field that is set.
///
/// What a filter costs: `state` chooses an index. A range of `finished_…` with the state `done` is
/// read from an index, too. All other fields are compared with each message that is read, up to
/// MessagePage::scan_limit messages per call.
struct MessageFilter {
  std::optional<MessageState> state{};  ///< Absent: all states.
  std::optional<std::string> topic{};
  std::optional<std::string> correlation_id{};
  std::optional<std::string> stream{};
  std::optional<WallTime> created_after{};    ///< Inclusive.
  std::optional<WallTime> created_before{};   ///< Exclusive.
  std::optional<WallTime> finished_after{};   ///< Inclusive; only with the state done or failed.
  std::optional<WallTime> finished_before{};  ///< Exclusive; only with the state done or failed.
};

struct MessagePage {
  /// MessageList::next of the previous page, with the same state.
  std::optional<std::string> cursor{};
  int size = 100;           ///< 1 to 10,000.
  int scan_limit = 10'000;  ///< The number of messages to read per call: 1 to 100,000.
};

/// The messages of one topic by state, as far as they were read.
struct TopicCounts {
  std::string topic{};
  std::int64_t ready = 0;
  std::int64_t scheduled = 0;
  std::int64_t in_progress = 0;
  std::int64_t done = 0;
  std::int64_t failed = 0;
  std::int64_t paused = 0;
};

struct TopicPage {
  std::optional<std::string> after{};  ///< The last topic of the previous page.
  int size = 1'000;                    ///< 1 to 10,000.
  /// The number of messages to read: this many unfinished, done and failed ones: 1 to 100,000.
  int scan_limit = 10'000;
};

struct TopicList {
  std::vector<TopicCounts> topics{};  ///< In the order of their names, compared as bytes.
  /// The scan limit was reached: counts may be higher, and topics may be missing.
  bool cut = false;
};

}  // namespace dovetail
