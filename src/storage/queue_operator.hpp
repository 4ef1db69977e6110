// The operator's role of a queue: it counts and finds messages, replays and purges them, and pauses
// topics.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dovetail/queue.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// A topic with messages that are due and that no worker has claimed.
struct DueTopic {
  std::string topic;
  std::int64_t seen = 0;                    ///< How many of its messages were seen.
  std::chrono::microseconds oldest_wait{};  ///< How long the oldest of them has been due.
};

/// The place of a message in the order of a list. Each engine and each list uses some of the
/// fields.
struct ListPlace {
  std::optional<Uuid> id{};
  std::int64_t lane = 0;
  std::int64_t at = 0;  ///< Microseconds since 1970.
  std::int64_t seq = 0;
};

struct ListRequest {
  MessageFilter filter{};
  std::optional<ListPlace> after{};
  int size = 0;
  int scan_limit = 0;
};

struct ListResult {
  std::vector<ListedMessage> messages{};
  std::vector<ListPlace> places{};  ///< Of these messages.
  std::int64_t read = 0;            ///< The number of messages that were read.
  ListPlace last_read{};
};

class QueueOperator {
 public:
  virtual ~QueueOperator() = default;

  // These handle up to `most` messages per call, and return how many they handled.

  virtual std::size_t replay(WriteSession& session, std::optional<std::span<const MessageId>> ids,
                             const DeadLetterFilter& filter, int most) = 0;
  virtual std::size_t purge_failed(WriteSession& session,
                                   std::optional<std::span<const MessageId>> ids,
                                   const DeadLetterFilter& filter, int most) = 0;
  virtual std::size_t purge_done(WriteSession& session, std::chrono::microseconds age,
                                 int most) = 0;

  /// Returns whether the topic was not paused before.
  virtual bool pause(WriteSession& session, std::string_view topic) = 0;
  /// Returns whether the topic was paused. QueueConsumer::unpark() returns its messages.
  virtual bool resume(WriteSession& session, std::string_view topic) = 0;

  /// The time that decides what is due.
  virtual WallTime now(ReadSession& session) = 0;
  /// Counts up to `up_to` messages of each state.
  virtual QueueCounts counts(ReadSession& session, std::int64_t up_to) = 0;
  QueueCounts counts(ReadSession& session) { return counts(session, 100'000); }
  /// Returns whether a message of these topics is due or in progress.
  virtual bool has_work(ReadSession& session, std::span<const std::string> topics) = 0;
  /// Topics whose messages have been due for at least `waiting`, among the first `scan_limit`
  /// messages of each priority, without paused topics. In no particular order.
  virtual std::vector<DueTopic> due_topics(ReadSession& session, std::chrono::microseconds waiting,
                                           int scan_limit) = 0;
  virtual std::optional<StoredMessage> find(ReadSession& session, MessageId id) = 0;
  virtual ListResult list(ReadSession& session, const ListRequest& request) = 0;
  /// The second value is the number of messages that were read.
  virtual std::pair<std::vector<TopicCounts>, std::int64_t> topics(ReadSession& session,
                                                                   const TopicPage& page) = 0;
  virtual std::vector<StoredMessage> dead_letters(ReadSession& session,
                                                  const DeadLetterFilter& filter,
                                                  const DeadLetterPage& page) = 0;
  virtual DeadLetterSummary dead_letter_summary(ReadSession& session,
                                                const DeadLetterFilter& filter,
                                                const DeadLetterSummaryLimits& limits) = 0;
  virtual std::vector<PausedTopic> paused(ReadSession& session) = 0;

  virtual std::vector<StreamInfo> streams(ReadSession& session, const StreamPage& page) = 0;
  virtual std::optional<StreamInfo> find_stream(ReadSession& session, std::string_view stream) = 0;
  /// These return whether the stream was blocked.
  virtual bool resume_stream(WriteSession& session, std::string_view stream) = 0;
  virtual bool skip_stream(WriteSession& session, std::string_view stream) = 0;
};

}  // namespace dovetail::storage
