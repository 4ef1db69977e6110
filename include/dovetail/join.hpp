// Joins: fan-in. A join counts its steps, which are messages. When all steps have ended, the
// messages that wait for the join continue.
//
//   platform.joins().fan_out({.grouping_key = "customer-7",
//                             .steps = {{.topic = "extract.orders"},
//                                       {.topic = "extract.products"}},
//                             .wait = {{.on_complete_topic = "etl.transform"}}});
//
// Handlers do not know about joins. The ack of a message, or its final failure, counts the step in
// the same transaction. This also holds for plain SQL.
//
// Guarantees
//   * Each step counts once: only its first end counts, whether by ack, failure or report.
//   * A message may be attached before, while or after it ends. If it has already ended, attach()
//     counts it.
//   * The transaction that ends the last step sets the join's status (failed if any step failed,
//     otherwise completed) and makes the waiting message ready. An ended join does not change.
//   * Each waiting message has exactly one continuation, and none after cancel(). Waiting charges
//     no attempts.
//   * A join with a deadline ends.
// Not guaranteed
//   * That enough steps are attached. A join with too few steps waits forever, unless it has a
//     deadline. Prefer fan_out(), which counts the steps.
//   * The count of messages that were deleted before attach(): attach a message before
//     QueueOptions::retain_done has passed.
//
// Threads: Joins may be shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
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
#include "dovetail/outbox.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

namespace storage {
class JoinStore;
class WriteSession;
}  // namespace storage

enum class JoinStatus : std::uint8_t { pending = 0, completed = 1, failed = 2, cancelled = 3 };
enum class StepStatus : std::uint8_t { pending = 0, completed = 1, failed = 2 };

[[nodiscard]] std::string_view to_string(JoinStatus status);
[[nodiscard]] std::string_view to_string(StepStatus status);

/// A join to start. Texts are UTF-8 without NUL.
struct JoinRequest {
  std::optional<std::string> grouping_key{};  ///< Up to 255 characters; empty means none.
  int expected_steps = 0;                     ///< At least 1.
  std::optional<std::string> metadata{};      ///< Any text up to 1 MiB. Dovetail does not read it.
  std::optional<WallTime> deadline{};  ///< The join fails if it is still pending at this time.
  /// With your own id, a repeated start changes nothing.
  std::optional<JoinId> join_id{};
};

struct Join {
  JoinId id{};
  std::optional<std::string> grouping_key{};
  int expected_steps = 0;
  int completed_steps = 0;
  int failed_steps = 0;
  JoinStatus status = JoinStatus::pending;
  WallTime created_at{};  ///< All times come from the database's clock.
  WallTime last_updated_at{};
  std::optional<WallTime> finished_at{};
  std::optional<WallTime> deadline{};
  std::optional<std::string> reason{};  ///< Why it failed, if not because of a step.
  std::optional<std::string> metadata{};
};

struct JoinMember {
  MessageId message{};
  StepStatus status = StepStatus::pending;
  WallTime created_at{};  ///< When it was attached.
};

/// The message to enqueue when a join ends.
struct Continuation {
  /// When a step failed: true takes the failure path, false the success path. A join that missed
  /// its deadline always takes the failure path.
  bool fail_if_any_step_failed = true;
  std::string on_complete_topic{};
  std::string on_complete_payload{};
  std::optional<std::string> on_fail_topic{};  ///< Absent: no continuation on the failure path.
  std::optional<std::string> on_fail_payload{};
};

/// The payload of a waiting message, for programs that enqueue it themselves.
///
///   outbox.enqueue({.topic = "join.wait", .payload = to_payload(join, continuation)});
///
/// A JSON object with join_id, fail_if_any_step_failed (true if absent), on_complete_topic,
/// on_complete_payload, on_fail_topic and on_fail_payload. joinId and JoinId are accepted too.
[[nodiscard]] std::string to_payload(JoinId join, const Continuation& continuation);

/// Selects joins. A join must match every field that is set.
struct JoinFilter {
  std::optional<std::string> grouping_key{};
  std::optional<JoinStatus> status{};
  std::optional<WallTime> created_after{};   ///< Inclusive.
  std::optional<WallTime> created_before{};  ///< Exclusive.
};

struct JoinPage {
  std::optional<JoinId> after{};  ///< The last id of the previous page.
  int size = 100;                 ///< 1 to 10,000.
};

struct MemberPage {
  std::optional<MessageId> after{};  ///< The last message of the previous page.
  int size = 1'000;                  ///< 1 to 10,000.
};

/// A fan-out: the steps, their join (as in JoinRequest), and the continuation.
struct FanOut {
  std::optional<std::string> grouping_key{};
  std::optional<std::string> metadata{};
  std::optional<WallTime> deadline{};
  /// With your own id, a repeated fan-out changes nothing: if the join exists, in any state, no
  /// message is enqueued.
  std::optional<JoinId> join_id{};
  int expected_steps = 0;  ///< 0: the number of steps. More: other steps are attached later.
  std::vector<EnqueueRequest> steps{};
  std::optional<Continuation> wait{};
};

struct FannedOut {
  JoinId join{};
  /// In the order of the requests. If the join existed before, no step was stored, and the id of a
  /// step with a unique_key may differ from that of the message that holds the key.
  std::vector<Enqueued> steps{};
  std::optional<MessageId> wait{};
};

struct JoinOptions {
  /// The topic of waiting messages. It must be the same in all processes.
  std::string wait_topic = "join.wait";
  /// How often a waiting message checks its join without a wake-up: 100 ms to 1 h.
  std::chrono::milliseconds wait_poll{60'000};
  /// How long a started Platform keeps ended joins. Zero: forever.
  std::chrono::seconds retain_finished = std::chrono::hours{24 * 30};
};

class Joins {
 public:
  Joins(storage::Database& database, Outbox& outbox, JoinOptions options, Logger log,
        Metrics metrics);

  // Each writing call has a variant that uses your transaction. All of them reject the nil UUID.
  // They throw InvalidOperation when the join does not exist.

  /// Durable on return.
  JoinId start(const JoinRequest& request);
  JoinId start(Transaction& transaction, const JoinRequest& request);

  /// Makes a message a step of a join. A repeated call changes nothing. The message cannot be
  /// settled until the transaction that attaches it ends: keep it short. A message that is not
  /// stored, not yet or no longer, is attached with a warning in the log (`join.attached_unknown`).
  ///
  /// Throws InvalidOperation when the message is not stored and done messages are not kept
  /// (retain_done is zero), because it may already be done.
  void attach(JoinId join, MessageId message);
  void attach(Transaction& transaction, JoinId join, MessageId message);

  /// Reports the end of a step without its message, for work that no handler does. Returns whether
  /// this was the step's first end. Throws InvalidOperation when the message is not a step of the
  /// join.
  bool report_step_completed(JoinId join, MessageId message);
  bool report_step_completed(Transaction& transaction, JoinId join, MessageId message);
  bool report_step_failed(JoinId join, MessageId message);
  bool report_step_failed(Transaction& transaction, JoinId join, MessageId message);

  /// Enqueues a message that waits for the join and then enqueues the continuation.
  MessageId enqueue_wait(JoinId join, const Continuation& continuation);
  MessageId enqueue_wait(Transaction& transaction, JoinId join, const Continuation& continuation);

  /// Stores the steps, their join and the waiting message, all or nothing.
  FannedOut fan_out(const FanOut& request);
  FannedOut fan_out(Transaction& transaction, const FanOut& request);

  /// Ends a pending join without a continuation. Returns false when it had already ended.
  bool cancel(JoinId join);
  bool cancel(Transaction& transaction, JoinId join);

  /// Returns nullopt when the join does not exist.
  [[nodiscard]] std::optional<Join> find(JoinId join);
  /// Ordered by id, oldest first.
  [[nodiscard]] std::vector<Join> list(const JoinFilter& filter = {}, const JoinPage& page = {});
  /// Ordered by id.
  [[nodiscard]] std::vector<JoinMember> members(JoinId join, const MemberPage& page = {});
  /// The joins of which the message is a step, at most 100.
  [[nodiscard]] std::vector<JoinId> joins_of(MessageId message);
  /// The messages that wait for the join, at most 100. After the end of a join, only the message of
  /// fan_out() is found.
  [[nodiscard]] std::vector<MessageId> waiting(JoinId join);
  /// The join that a message of the outbox waits for. Nullopt for other messages.
  [[nodiscard]] std::optional<JoinId> awaited_by(const Message& message) const;
  /// The id of the message that a waiting message enqueues after the end of its join.
  [[nodiscard]] static MessageId continuation_of(MessageId waiting);

  /// Fails the pending joins whose deadline has passed and returns their number. A started Platform
  /// calls it regularly. A waiting message also does it at the deadline.
  std::size_t fail_overdue(const std::stop_token& stop = {});

  /// Deletes joins that ended longer than `age` ago, with their members, and returns their number.
  /// It keeps joins whose waiting message is not yet handled. A started Platform calls it with
  /// JoinOptions::retain_finished.
  std::size_t purge(std::chrono::seconds age, const std::stop_token& stop = {});

  [[nodiscard]] const JoinOptions& options() const { return options_; }

 private:
  /// Returns whether the message is stored.
  bool attach_in(storage::WriteSession& session, JoinId join, MessageId message) const;
  void note_attached(JoinId join, MessageId message, bool is_stored) const;
  bool report_in(storage::WriteSession& session, JoinId join, MessageId message,
                 StepStatus status) const;
  bool report(JoinId join, MessageId message, StepStatus status);
  bool cancel_in(storage::WriteSession& session, JoinId join) const;
  void note_started(JoinId join, std::string_view grouping_key, int expected_steps) const;
  void note_fanned_out(const FanOut& request, const FannedOut& answer, int expected_steps,
                       Transaction* transaction) const;
  void note_steps(JoinId join, std::span<const Enqueued> steps) const;
  void note_cancelled(JoinId join) const;

  storage::Database* database_;
  storage::JoinStore* store_;
  Outbox* outbox_;
  JoinOptions options_;
  Logger log_;
  Metrics metrics_;
};

}  // namespace dovetail
