// A queue of messages and how it is worked and operated: what the outbox and the inbox have in
// common.
//
// Most services need nothing of it: handlers (platform.hpp) claim, ack and retry by themselves. It
// is for workers of your own, and for operating it.
//
// A message's life: enqueue → ready → claim → in progress → ack (done), abandon (ready again, after
// a backoff), snooze (ready again, free of charge) or fail (a dead letter, until replay or purge).
//
// Guarantees
//   * Exactly what claim() returns is leased to the caller, until the lease ends by the database's
//   clock.
//   * At most one ack takes effect per claim. Once a lease ran out, its owner can change nothing:
//   the
//     message is free for the next claim, with a new epoch and one more attempt on its account.
//   * A message whose attempts are used up, by abandon or by workers that died of it, fails and is
//   kept.
//   * Bad arguments are refused before any I/O, with the limit in the text.
// Not guaranteed
//   * Order. Messages that are due are claimed by priority and then roughly oldest first; nothing
//   may
//     depend on it.
//   * Exactly-once delivery. A worker that dies after its work and before its ack makes the message
//   come
//     again.
//
// Threads: a WorkQueue may be shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

namespace storage {
class Database;
class QueueConsumer;
class QueueOperator;
}  // namespace storage

enum class MessageStatus : std::uint8_t { ready = 0, in_progress = 1, done = 2, failed = 3 };

[[nodiscard]] std::string_view to_string(MessageStatus status);

/// Small texts that travel with a message, such as `traceparent`.
using Headers = std::map<std::string, std::string, std::less<>>;

/// A message of a queue.
struct Message {
  MessageId id{};
  MessageId message_id{};  ///< The same id, under the name that the specification uses.
  std::string topic{};
  std::string payload{};
  std::optional<std::string> correlation_id{};
  Headers headers{};
  WallTime created_at{};  ///< By the database's clock.
  std::optional<WallTime> due_at{};
  std::optional<WallTime> expires_at{};
  int priority = 0;
  int attempts = 0;  ///< Tries that have failed so far.
};

/// The right to settle one message: valid for its owner, until the lease ends.
struct Claim {
  MessageId id{};
  std::int64_t epoch = 0;  ///< Grows with every claim of the message: a fencing token.
  std::int64_t row =
      0;  ///< Where an engine may look first; zero if it did not say. Decides nothing.

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
  /// Claims only messages of these topics, up to 1,000 of them; empty: of all topics. Messages of
  /// other topics are left alone.
  std::vector<std::string> topics{};
  /// Claims fewer messages when their payloads exceed this together; one message is always claimed.
  std::size_t max_bytes = std::size_t{64} << 20;
  /// A message whose lease expired fails instead of being claimed when it has so many failed tries.
  /// Absent: QueueOptions::max_attempts.
  std::optional<int> max_attempts{};
  std::stop_token stop{};
};

struct AbandonOptions {
  std::string error{};  ///< Why; cut to 2 KiB and kept with the message.
  std::optional<std::chrono::milliseconds>
      delay{};  ///< Absent: 2 s, 4 s, 8 s … 60 s by its attempts, less up to 10 %.
  std::optional<int> max_attempts{};  ///< Absent: QueueOptions::max_attempts.
};

struct ReapOptions {
  /// Absent: messages are only given back. The limit of attempts belongs to those who handle a
  /// topic: the next claim that takes such a message lets it fail. Given: messages with so many
  /// failed tries fail at once.
  std::optional<int> max_attempts{};
  /// Looks only at so many messages at the front of each priority, where leases are found; absent:
  /// at all of them.
  std::optional<int> look_at{};
  std::stop_token stop{};
};

/// A message as it is stored, in whatever state.
struct StoredMessage {
  Message message{};  ///< Without its payload in lists.
  MessageStatus status = MessageStatus::ready;
  std::optional<WallTime> next_attempt_at{};  ///< While it is ready.
  std::optional<WallTime> processed_at{};     ///< When it was done or failed.
  std::optional<OwnerToken> processed_by{};
  std::optional<std::string> last_error{};
  std::optional<std::string> unique_key{};
  int past_attempts = 0;  ///< Tries before it was last replayed.
};

/// Which dead letters are meant. Every field that is set narrows it down.
struct DeadLetterFilter {
  std::optional<std::string> topic{};
  std::optional<WallTime> failed_after{};   ///< Inclusive.
  std::optional<WallTime> failed_before{};  ///< Exclusive.
};

struct DeadLetterPage {
  std::optional<MessageId> after{};  ///< The last id of the page before.
  int size = 100;                    ///< 1 to 10,000.
  /// Descending ids. Ids that enqueue() makes ascend with the time of their creation.
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
  /// Reads this many dead letters at most, the newest ids first: 1 to 10,000,000.
  int letters = 100'000;
  int groups = 1'000;  ///< Returns this many groups at most, the largest first: 1 to 10,000.
};

struct DeadLetterSummary {
  std::vector<DeadLetterGroup> groups{};  ///< The largest first.
  std::int64_t letters_read = 0;          ///< Before the filter.
  /// The limit was reached: there may be older dead letters.
  bool letters_cut = false;
  bool groups_cut = false;  ///< Smaller groups were left out.
};

struct PausedTopic {
  std::string topic{};
  WallTime since{};
};

/// How many messages are in each state. Counting stops at `counted_up_to`.
struct QueueCounts {
  std::int64_t ready = 0;      ///< Due now.
  std::int64_t scheduled = 0;  ///< Ready, but not due yet: also those that wait for their next try.
  std::int64_t in_progress = 0;
  std::int64_t done = 0;    ///< Within QueueOptions::retain_done.
  std::int64_t failed = 0;  ///< Dead letters.
  std::int64_t paused = 0;  ///< Put aside because their topic is paused.
  std::int64_t counted_up_to = 0;
  std::optional<std::chrono::microseconds>
      oldest_due{};  ///< How long the oldest due message has been waiting.
};

struct QueueOptions {
  std::size_t max_payload_bytes = 1 << 20;  ///< At most 64 MiB.
  /// A message fails when this many tries have: 1 to 1,000. A handler may have its own.
  int max_attempts = 10;
  /// How long done messages are kept; zero: they are deleted by their ack, and then a repeated
  /// enqueue of the same message_id is not recognised any more.
  std::chrono::seconds retain_done = std::chrono::hours{24};
};

class WorkQueue {
 public:
  /// Of one database; `name` is what its events begin with.
  WorkQueue(storage::Database& database, std::string_view name, QueueOptions options, Logger log,
            Metrics metrics);

  // --- for workers of your own

  // Claims that are unknown, of another owner, of an older epoch or past their lease are ignored;
  // the answer is how many took effect.

  /// Leases up to `batch_size` due messages; an empty answer means that nothing is due.
  ///
  /// Throws Error when the database gave no answer; messages may then be leased unseen, and come
  /// back after `lease`.
  [[nodiscard]] std::vector<ClaimedMessage> claim(const ClaimRequest& request);

  /// Done.
  std::size_t ack(OwnerToken owner, std::span<const Claim> claims);
  /// Done, with the other writes of `transaction`: roll it back when the answer says that the lease
  /// was lost.
  std::size_t ack(Transaction& transaction, OwnerToken owner, std::span<const Claim> claims);

  /// Failed for now: tried again after a delay, or a dead letter when its attempts are used up.
  std::size_t abandon(OwnerToken owner, std::span<const Claim> claims,
                      const AbandonOptions& options = {});

  /// Failed for good: a dead letter. `error` must not be empty, and is cut to 2 KiB.
  std::size_t fail(OwnerToken owner, std::span<const Claim> claims, std::string_view error);

  /// Not ready yet: tried again after `delay`, free of charge. Without one: at once, in its old
  /// place.
  std::size_t snooze(OwnerToken owner, std::span<const Claim> claims,
                     std::optional<std::chrono::milliseconds> delay = {});

  /// Lets the leases end `lease` from now.
  std::size_t renew(OwnerToken owner, std::span<const Claim> claims,
                    std::chrono::milliseconds lease);

  /// Takes back every lease that ran out, and charges its message an attempt; answers how many.
  /// Claims do that by themselves for what they meet, and a started Platform does it regularly.
  std::size_t reap_expired(const ReapOptions& options = {});

  // --- for operating it

  [[nodiscard]] QueueCounts counts();

  /// Whether a message of these topics is due or in progress. It reads the queue until it finds
  /// one.
  [[nodiscard]] bool has_work(std::span<const std::string> topics);

  /// The message as it is stored, with its payload; nothing when there is none.
  [[nodiscard]] std::optional<StoredMessage> find(MessageId id);

  /// Failed messages in the order of their ids, or the reverse, without payloads.
  [[nodiscard]] std::vector<StoredMessage> dead_letters(const DeadLetterFilter& filter = {},
                                                        const DeadLetterPage& page = {});

  /// Counts dead letters by topic and error. Bounded by `limits`; the answer says when it is
  /// incomplete.
  [[nodiscard]] DeadLetterSummary dead_letter_summary(const DeadLetterFilter& filter = {},
                                                      const DeadLetterSummaryLimits& limits = {});

  /// Makes dead letters ready again: attempts at zero, the last error and the number of past
  /// attempts kept, no expiry any more. Those whose unique key a live message has taken stay.
  /// Answers how many were replayed.
  std::size_t replay(std::span<const MessageId> ids);
  std::size_t replay(const DeadLetterFilter& filter);

  /// Deletes dead letters; answers how many.
  std::size_t purge_dead_letters(std::span<const MessageId> ids);
  std::size_t purge_dead_letters(const DeadLetterFilter& filter);

  /// Deletes messages that were done longer ago than `age`, in small transactions; answers how
  /// many. A started Platform does it by itself, with QueueOptions::retain_done.
  std::size_t purge_done(std::chrono::seconds age, const std::stop_token& stop = {});

  /// Keeps messages of a topic from being claimed, in all processes, until resume(). Those that are
  /// in progress go on. Answers false when it was paused already.
  bool pause(std::string_view topic);
  /// Answers false when it was not paused.
  bool resume(std::string_view topic);
  [[nodiscard]] std::vector<PausedTopic> paused_topics();

  [[nodiscard]] const QueueOptions& options() const { return options_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 protected:
  [[nodiscard]] storage::Database& database() const { return *database_; }
  [[nodiscard]] const Logger& log() const { return log_; }
  [[nodiscard]] const Metrics& metrics() const { return metrics_; }

 private:
  template <class Call>
  std::size_t settle(const char* event, OwnerToken owner, std::span<const Claim> claims,
                     const Call& call);
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
