// Queues: the operations that the outbox, the inbox and timers have in common.
//
// Most services do not need this header: handlers (platform.hpp) claim, ack and retry messages. It
// is for your own workers and for operators.
//
// The life of a message: enqueue → ready → claim → in progress → ack (done), abandon (ready again
// after a backoff), snooze (ready again, no attempt charged) or fail (a dead letter until replay or
// purge).
//
// Guarantees
//   * claim() leases exactly the messages that it returns, until the lease expires by the
//     database's clock.
//   * At most one ack takes effect per claim. After its lease expires, an owner can change nothing:
//     the message is free for the next claim, with a new epoch and one more attempt.
//   * A message fails after its last attempt, whether it was abandoned or its workers died. Failed
//     messages are kept.
//   * Bad arguments are rejected before any I/O. The text names the limit.
// Not guaranteed
//   * Order, except in a stream (stream.hpp). Other due messages are claimed by priority, then
//     approximately oldest first. Do not depend on it.
//   * Exactly-once delivery. If a worker dies after its work and before its ack, the message is
//     delivered again.
//
// Threads: a WorkQueue may be shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/failed_attempt.hpp"
#include "dovetail/ids.hpp"
#include "dovetail/log.hpp"
#include "dovetail/message_list.hpp"
#include "dovetail/metrics.hpp"
#include "dovetail/stage.hpp"
#include "dovetail/stream.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

namespace storage {
class Database;
class QueueConsumer;
class QueueOperator;

/// The position of a claimed message, with which its engine finds it fastest. It has no meaning to
/// callers, and affects only speed.
class RowHint {
 public:
  RowHint() = default;

 private:
  friend struct RowHintAccess;
  std::int64_t row_ = 0;
  std::int64_t run_ = 0;
};
}  // namespace storage

class TraceSink;

enum class MessageStatus : std::uint8_t { ready = 0, in_progress = 1, done = 2, failed = 3 };

[[nodiscard]] std::string_view to_string(MessageStatus status);

/// Short texts that accompany a message, such as `traceparent`.
using Headers = std::map<std::string, std::string, std::less<>>;

/// A message of a queue.
struct Message {
  MessageId id{};
  MessageId message_id{};  ///< The same id, under the specification's name.
  std::string topic{};
  std::string payload{};
  std::optional<std::string> correlation_id{};
  Headers headers{};
  WallTime created_at{};  ///< By the database's clock.
  std::optional<WallTime> due_at{};
  std::optional<WallTime> expires_at{};
  int priority = 0;
  int attempts = 0;                     ///< The number of failed attempts.
  std::optional<std::string> stream{};  ///< See stream.hpp.
  Stages stages{};                      ///< What has succeeded; see stage.hpp.
};

/// The right to settle one message. It belongs to its owner until the lease expires.
struct Claim {
  MessageId id{};
  std::int64_t epoch = 0;   ///< Increases with every claim of the message: a fencing token.
  storage::RowHint hint{};  ///< Optional: copy it with the claim.

  friend bool operator==(const Claim& a, const Claim& b) {
    return a.id == b.id && a.epoch == b.epoch;
  }
};

struct ClaimedMessage {
  Message message{};
  Claim claim{};
  WallTime lease_until{};  ///< By the database's clock.
};

struct ClaimRequest {
  OwnerToken owner{};
  int batch_size = 50;                      ///< 1 to 10,000.
  std::chrono::milliseconds lease{30'000};  ///< 1 ms to 24 h.
  /// Claims only messages of these topics, at most 1,000; empty: all topics. Messages of other
  /// topics are not changed.
  std::vector<std::string> topics{};
  /// The limit of the payloads of one claim, in bytes. One message is always claimed.
  std::size_t max_bytes = std::size_t{64} << 20;
  /// A message whose lease expired fails instead of being claimed when it has this many failed
  /// attempts. Absent: none fails, because the limit belongs to the handlers of a topic.
  std::optional<int> max_attempts{};
  std::stop_token stop{};
};

struct AbandonOptions {
  std::string error{};  ///< The reason; stored with the message, truncated to 2 KiB.
  /// Absent: 2 s, 4 s, 8 s … 60 s by the number of attempts, minus up to 10 %.
  std::optional<std::chrono::milliseconds> delay{};
  std::optional<int> max_attempts{};  ///< Absent: QueueOptions::max_attempts.
  /// What happens to a message of a stream after its last attempt.
  StreamFailure on_stream_failure = StreamFailure::block;
};

struct ReapOptions {
  /// Absent: messages only become ready again, because the limit belongs to the handlers of a
  /// topic. The next claim of such a message makes it fail. Present: messages with this many failed
  /// attempts fail at once.
  std::optional<int> max_attempts{};
  /// Reads only this many messages at the front of each priority, where leased messages are.
  /// Absent: reads all messages.
  std::optional<int> scan_limit{};
  std::stop_token stop{};
};

/// A message as it is stored, with its status.
struct StoredMessage {
  Message message{};  ///< Without its payload in lists.
  MessageStatus status = MessageStatus::ready;
  std::optional<WallTime> next_attempt_at{};  ///< While it is ready.
  std::optional<WallTime> processed_at{};     ///< When it was done or failed.
  std::optional<OwnerToken> processed_by{};
  std::optional<std::string> last_error{};
  std::optional<std::string> unique_key{};
  int past_attempts = 0;  ///< The number of attempts before the last replay.
  /// Oldest first; see failed_attempt.hpp. Only find() returns them, lists do not.
  std::vector<FailedAttempt> failures{};
};

struct ListedMessage {
  StoredMessage stored{};
  MessageState state = MessageState::ready;
};

/// Messages without payloads.
///
/// The order depends on the state: done messages by the time of their end, newest first; failed
/// messages, and messages of all states, by descending ids (ids that enqueue() generates increase
/// with their time of creation); the others approximately oldest first.
struct MessageList {
  std::vector<ListedMessage> messages{};
  /// Where the next page begins. Absent: there are no more messages.
  std::optional<std::string> next{};
  /// The scan limit was reached before the page was full: more messages may match behind `next`.
  bool cut = false;
};

/// Selects dead letters. A message must match every field that is set.
struct DeadLetterFilter {
  std::optional<std::string> topic{};
  std::optional<WallTime> failed_after{};   ///< Inclusive.
  std::optional<WallTime> failed_before{};  ///< Exclusive.
};

struct DeadLetterPage {
  std::optional<MessageId> after{};  ///< The last id of the previous page.
  int size = 100;                    ///< 1 to 10,000.
  /// Descending ids. Ids that enqueue() generates increase with their time of creation.
  bool newest_first = false;
};

/// Dead letters with the same topic and the same error.
struct DeadLetterGroup {
  std::string topic{};
  std::optional<std::string> error{};
  std::int64_t count = 0;
  WallTime oldest{};  ///< When the first of them failed.
  WallTime newest{};  ///< When the last of them failed.
};

struct DeadLetterSummaryLimits {
  /// The maximum number of dead letters to read, newest ids first: 1 to 10,000,000.
  int letters = 100'000;
  int groups = 1'000;  ///< The maximum number of groups to return: 1 to 10,000.
};

struct DeadLetterSummary {
  std::vector<DeadLetterGroup> groups{};  ///< Largest first.
  std::int64_t letters_read = 0;          ///< Before the filter.
  /// The limit was reached: older dead letters may exist.
  bool letters_cut = false;
  bool groups_cut = false;  ///< Smaller groups were left out.
};

struct PausedTopic {
  std::string topic{};
  WallTime since{};
};

/// The number of messages by state. Counting stops at `counted_up_to`.
struct QueueCounts {
  std::int64_t ready = 0;      ///< Due now.
  std::int64_t scheduled = 0;  ///< Not due yet, including messages that wait for a retry.
  std::int64_t in_progress = 0;
  std::int64_t done = 0;    ///< Within QueueOptions::retain_done.
  std::int64_t failed = 0;  ///< Dead letters.
  std::int64_t paused = 0;  ///< Of paused topics.
  std::int64_t counted_up_to = 0;
  /// How long the oldest due message has been waiting.
  std::optional<std::chrono::microseconds> oldest_due{};
};

struct QueueOptions {
  std::size_t max_payload_bytes = 1 << 20;  ///< At most 64 MiB.
  /// The number of failed attempts after which a message fails: 1 to 1,000. A handler may set its
  /// own.
  int max_attempts = 10;
  /// How long done messages are kept. Zero: the ack deletes them, and a repeated enqueue of the
  /// same message_id is then not recognised.
  std::chrono::seconds retain_done = std::chrono::hours{24};
  /// Receives the producer spans of this queue, and outlives it; see trace.hpp. Null:
  /// PlatformOptions::trace_sink.
  TraceSink* trace_sink = nullptr;
};

class WorkQueue {
 public:
  /// The queue `name` of `database`. Log events begin with `name`, and
  /// metrics have it as their label `queue`.
  WorkQueue(storage::Database& database, std::string_view name, QueueOptions options, Logger log,
            Metrics metrics);

  // --- for your own workers

  // These calls ignore claims that are unknown, have another owner or an older epoch, or whose
  // lease has expired. They return the number of claims that took effect.

  /// Leases up to `batch_size` due messages. An empty result means that no message is due.
  ///
  /// Throws Error when the database gave no answer. Messages may then be leased without the
  /// caller's knowledge; they become ready when `lease` expires.
  [[nodiscard]] std::vector<ClaimedMessage> claim(const ClaimRequest& request);

  /// Leases streams and returns the first messages of each, up to `batch_size` messages together.
  /// claim() does not return messages of streams.
  ///
  /// The messages of one stream follow each other in the result. Handle them one after the other,
  /// and settle each of them. When one of them fails, handle none of its successors: abandon() or
  /// fail() the message, and snooze() the successors without a delay. The lease of a stream ends
  /// with the last settlement; renew() with any of its claims renews it.
  [[nodiscard]] std::vector<ClaimedMessage> claim_streams(const ClaimRequest& request);

  /// Marks messages as done.
  std::size_t ack(OwnerToken owner, std::span<const Claim> claims);
  /// Marks messages as done, together with the other writes of `transaction`. Roll it back when the
  /// result shows that a lease was lost.
  std::size_t ack(Transaction& transaction, OwnerToken owner, std::span<const Claim> claims);

  /// Records a failed attempt. The messages are retried after a delay, or become dead letters after
  /// their last attempt.
  std::size_t abandon(OwnerToken owner, std::span<const Claim> claims,
                      const AbandonOptions& options = {});

  /// Makes the messages dead letters. `error` must not be empty; it is truncated to 2 KiB. For
  /// messages of streams, `on_stream_failure` decides.
  std::size_t fail(OwnerToken owner, std::span<const Claim> claims, std::string_view error,
                   StreamFailure on_stream_failure = StreamFailure::block);

  /// Makes the messages ready again after `delay`; no attempt is charged. Without a delay they are
  /// ready at once, at their old position.
  std::size_t snooze(OwnerToken owner, std::span<const Claim> claims,
                     std::optional<std::chrono::milliseconds> delay = {});

  /// Sets the expiry of the leases to `lease` from now.
  std::size_t renew(OwnerToken owner, std::span<const Claim> claims,
                    std::chrono::milliseconds lease);

  /// Makes every message with an expired lease ready again, charges an attempt, and returns the
  /// number of messages. A claim does the same for the messages that it reads. A started Platform
  /// calls it regularly.
  std::size_t reap_expired(const ReapOptions& options = {});

  // --- operation

  /// Counts up to `up_to` messages of each state: 1 to 10,000,000. A lower limit is faster.
  [[nodiscard]] QueueCounts counts(std::int64_t up_to = 100'000);

  /// Returns whether a message of these topics is due or in progress. Reads the queue until it
  /// finds one.
  [[nodiscard]] bool has_work(std::span<const std::string> topics);

  /// The stored message with its payload and its failed attempts, or nullopt.
  [[nodiscard]] std::optional<StoredMessage> find(MessageId id);

  /// Stored messages without payloads, one page after the other; see message_list.hpp. Throws
  /// std::invalid_argument for a cursor that is not one, or that belongs to another state.
  [[nodiscard]] MessageList messages(const MessageFilter& filter = {},
                                     const MessagePage& page = {});

  /// The topics of messages and paused topics, with counts.
  [[nodiscard]] TopicList topics(const TopicPage& page = {});

  /// Failed messages without payloads, in the order of their ids or in reverse.
  [[nodiscard]] std::vector<StoredMessage> dead_letters(const DeadLetterFilter& filter = {},
                                                        const DeadLetterPage& page = {});

  /// Counts dead letters by topic and error, within `limits`. The result says whether it is
  /// incomplete.
  [[nodiscard]] DeadLetterSummary dead_letter_summary(const DeadLetterFilter& filter = {},
                                                      const DeadLetterSummaryLimits& limits = {});

  /// Makes dead letters ready again: the attempts are reset to zero, the expiry is removed, and the
  /// last error, the failures and the number of past attempts are kept. A message whose unique key
  /// a live message uses is not replayed. Returns the number of replayed messages.
  std::size_t replay(std::span<const MessageId> ids);
  std::size_t replay(const DeadLetterFilter& filter);

  /// Deletes dead letters and returns their number.
  std::size_t purge_dead_letters(std::span<const MessageId> ids);
  std::size_t purge_dead_letters(const DeadLetterFilter& filter);

  /// Deletes messages that were done longer than `age` ago, in small transactions, and returns
  /// their number. A started Platform calls it with QueueOptions::retain_done.
  std::size_t purge_done(std::chrono::seconds age, const std::stop_token& stop = {});

  /// Pauses a topic in all processes until resume(): its messages stay queued. Messages in progress
  /// continue. Returns false when the topic was already paused.
  bool pause(std::string_view topic);
  /// Returns false when the topic was not paused.
  bool resume(std::string_view topic);
  [[nodiscard]] std::vector<PausedTopic> paused_topics();

  // --- streams (stream.hpp)

  /// Streams that have messages or are blocked, ordered by name. A stream in the state `ready` is
  /// listed only if it is among the first thousand of its priority.
  [[nodiscard]] std::vector<StreamInfo> streams(const StreamPage& page = {});
  [[nodiscard]] std::optional<StreamInfo> find_stream(std::string_view stream);
  /// Retries the first message of a blocked stream, with zero attempts. Returns false when the
  /// stream is not blocked.
  bool resume_stream(std::string_view stream);
  /// Makes the first message of a blocked stream a dead letter. The stream continues.
  /// Returns false when the stream is not blocked.
  bool skip_stream(std::string_view stream);

  [[nodiscard]] const QueueOptions& options() const { return options_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 protected:
  [[nodiscard]] storage::Database& database() const { return *database_; }
  [[nodiscard]] const Logger& log() const { return log_; }
  [[nodiscard]] const Metrics& metrics() const { return metrics_; }

 private:
  template <class Call>
  std::size_t settle(const char* event, OwnerToken owner, std::span<const Claim> claims,
                     const Call& call, Transaction* transaction = nullptr);
  void count_call(std::string_view event, std::size_t count) const;
  [[nodiscard]] std::vector<ClaimedMessage> claim(const ClaimRequest& request, bool streams);
  [[nodiscard]] std::string event(const char* what) const { return name_ + "." + what; }

  storage::Database* database_;
  storage::QueueConsumer* consumer_;
  storage::QueueOperator* operator_;
  std::string name_;
  QueueOptions options_;
  Logger log_;
  Metrics metrics_;
};

}  // namespace dovetail
