// Joins: fan-in. A join counts messages (its steps) to their ends; when all have ended, what waits
// for it goes on.
//
//   platform.joins().fan_out({.grouping_key = "customer-7",
//                             .steps = {{.topic = "extract.orders"}, {.topic =
//                             "extract.products"}}, .wait = {{.on_complete_topic =
//                             "etl.transform"}}});
//
// Handlers know nothing of joins: the ack of a message, or its failure for good, counts it in the
// same transaction, also when it comes from plain SQL.
//
// Guarantees
//   * Each step counts once: its first end, be it by ack, failure or report. All later ones change
//   nothing.
//   * It does not matter whether a message is attached before, while or after it ends. One that has
//   ended already is
//     counted by attach() itself.
//   * The transaction that ends the last step sets the join's status (failed if any step failed,
//   else completed) and makes
//     the waiting message ready. A join that has ended does not change any more.
//   * Exactly one continuation per waiting message; none after cancel(). Waiting costs no attempts,
//   however long it takes.
//   * A join with a deadline ends.
// Not guaranteed
//   * That as many steps are attached as are expected. A join with too few of them waits for ever,
//   unless it has a
//     deadline: prefer fan_out(), which counts for you.
//   * Knowledge of messages that are not stored any more: attach one before
//   QueueOptions::retain_done is over.
//
// Threads: a Joins may be shared between threads.
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
}  // namespace storage

enum class JoinStatus : std::uint8_t { pending = 0, completed = 1, failed = 2, cancelled = 3 };
enum class StepStatus : std::uint8_t { pending = 0, completed = 1, failed = 2 };

[[nodiscard]] std::string_view to_string(JoinStatus status);
[[nodiscard]] std::string_view to_string(StepStatus status);

/// What to start. Texts are UTF-8 without NUL.
struct JoinRequest {
  std::optional<std::string> grouping_key{};  ///< Up to 255 characters; empty means none.
  int expected_steps = 0;                     ///< At least 1.
  std::optional<std::string> metadata{};      ///< Any text, up to 1 MiB; kept, not read.
  std::optional<WallTime> deadline{};         ///< Pending until then, the join fails.
  /// Your own id makes a repeated start harmless: the second one changes nothing.
  std::optional<JoinId> join_id{};
};

struct Join {
  JoinId id{};
  std::optional<std::string> grouping_key{};
  int expected_steps = 0;
  int completed_steps = 0;
  int failed_steps = 0;
  JoinStatus status = JoinStatus::pending;
  WallTime created_at{};  ///< By the database's clock, as all times here.
  WallTime last_updated_at{};
  std::optional<WallTime> finished_at{};
  std::optional<WallTime> deadline{};
  std::optional<std::string> reason{};  ///< Why it failed, if not by its steps.
  std::optional<std::string> metadata{};
};

struct JoinMember {
  MessageId message{};
  StepStatus status = StepStatus::pending;
  WallTime created_at{};  ///< When it was attached.
};

/// What follows when a join has ended.
struct Continuation {
  /// With a failed step: true takes the failure path, false the other. A join that missed its
  /// deadline always takes the failure path.
  bool fail_if_any_step_failed = true;
  std::string on_complete_topic{};
  std::string on_complete_payload{};
  std::optional<std::string> on_fail_topic{};  ///< Absent: no continuation on the failure path.
  std::optional<std::string> on_fail_payload{};
};

/// The payload of a waiting message, for those who enqueue it themselves.
///
///   outbox.enqueue({.topic = "join.wait", .payload = to_payload(join, continuation)});
///
/// A JSON object with join_id, fail_if_any_step_failed (true if absent), on_complete_topic,
/// on_complete_payload, on_fail_topic and on_fail_payload; joinId and JoinId are understood as
/// well.
[[nodiscard]] std::string to_payload(JoinId join, const Continuation& continuation);

/// Which joins are meant. Every field that is set narrows it down.
struct JoinFilter {
  std::optional<std::string> grouping_key{};
  std::optional<JoinStatus> status{};
  std::optional<WallTime> created_after{};   ///< Inclusive.
  std::optional<WallTime> created_before{};  ///< Exclusive.
};

struct JoinPage {
  std::optional<JoinId> after{};  ///< The last id of the page before.
  int size = 100;                 ///< 1 to 10,000.
};

struct MemberPage {
  std::optional<MessageId> after{};  ///< The last message of the page before.
  int size = 1'000;                  ///< 1 to 10,000.
};

/// A fan-out: the steps, their join (as in JoinRequest), and what follows when all have ended.
struct FanOut {
  std::optional<std::string> grouping_key{};
  std::optional<std::string> metadata{};
  std::optional<WallTime> deadline{};
  /// With an id, a repeated fan-out changes nothing: when the join exists, whatever its state,
  /// nothing is enqueued.
  std::optional<JoinId> join_id{};
  int expected_steps = 0;  ///< 0: as many as there are messages. More: others are attached later.
  std::vector<EnqueueRequest> steps{};
  std::optional<Continuation> wait{};
};

struct FannedOut {
  JoinId join{};
  /// In the order of the requests. When the join existed before, none was stored, and a step with a
  /// unique_key may name another id than the message that holds the key.
  std::vector<Enqueued> steps{};
  std::optional<MessageId> wait{};
};

struct JoinOptions {
  std::string wait_topic =
      "join.wait";  ///< The topic of waiting messages, the same in all processes.
  /// How often a waiting message looks at its join without having been told: 100 ms to 1 h.
  std::chrono::milliseconds wait_poll{60'000};
  /// How long a started Platform keeps joins that have ended; zero: for ever.
  std::chrono::seconds retain_finished = std::chrono::hours{24 * 30};
};

class Joins {
 public:
  Joins(storage::Database& database, Outbox& outbox, JoinOptions options, Logger log,
        Metrics metrics);

  // Each writing call has a twin that takes part in your transaction. They refuse the nil UUID, and
  // a join that does not exist with InvalidOperation.

  /// Durable on return.
  JoinId start(const JoinRequest& request);
  JoinId start(Transaction& transaction, const JoinRequest& request);

  /// Makes a message a step of a join; a second time changes nothing. A transaction that attaches a
  /// message keeps it from being settled until it ends: keep it short. A message that is not
  /// stored, not yet or no longer, is attached with a warning in the log (`join.attached_unknown`).
  ///
  /// Throws InvalidOperation when the message is not stored and done messages are not kept
  /// (retain_done is zero): nobody could say whether it is done.
  void attach(JoinId join, MessageId message);
  void attach(Transaction& transaction, JoinId join, MessageId message);

  /// Reports a step's end without its message: for work that is not done by a handler. Answers
  /// whether this was the step's first end. Throws InvalidOperation when the message is no step of
  /// the join.
  bool report_step_completed(JoinId join, MessageId message);
  bool report_step_completed(Transaction& transaction, JoinId join, MessageId message);
  bool report_step_failed(JoinId join, MessageId message);
  bool report_step_failed(Transaction& transaction, JoinId join, MessageId message);

  /// Enqueues a message that waits for the join and then enqueues its continuation.
  MessageId enqueue_wait(JoinId join, const Continuation& continuation);
  MessageId enqueue_wait(Transaction& transaction, JoinId join, const Continuation& continuation);

  /// The steps, their join and what waits for it, all or nothing.
  FannedOut fan_out(const FanOut& request);
  FannedOut fan_out(Transaction& transaction, const FanOut& request);

  /// Ends a pending join without a continuation; answers false when it had ended already.
  bool cancel(JoinId join);
  bool cancel(Transaction& transaction, JoinId join);

  /// Nothing when there is none.
  [[nodiscard]] std::optional<Join> get(JoinId join);
  /// In the order of their ids: oldest first.
  [[nodiscard]] std::vector<Join> list(const JoinFilter& filter = {}, const JoinPage& page = {});
  /// In the order of their ids.
  [[nodiscard]] std::vector<JoinMember> members(JoinId join, const MemberPage& page = {});

  /// Fails the pending joins whose deadline has passed; answers how many. A started Platform does
  /// it by itself, and a waiting message at the very moment.
  std::size_t fail_overdue(const std::stop_token& stop = {});

  /// Deletes joins that ended longer ago than `age`, with their members, but for those whose
  /// waiting message is still to be handled; answers how many. A started Platform does it with
  /// JoinOptions::retain_finished.
  std::size_t purge(std::chrono::seconds age, const std::stop_token& stop = {});

  [[nodiscard]] const JoinOptions& options() const { return options_; }

 private:
  /// Answers whether the message is stored.
  bool attach_in(storage::WriteSession& session, JoinId join, MessageId message) const;
  void note_attached(JoinId join, MessageId message, bool is_stored) const;
  bool report_in(storage::WriteSession& session, JoinId join, MessageId message,
                 StepStatus status) const;
  bool report(JoinId join, MessageId message, StepStatus status);
  bool cancel_in(storage::WriteSession& session, JoinId join) const;
  void note_started(JoinId join, const JoinRequest& request, int expected_steps) const;
  void note_fanned_out(const JoinRequest& join, const FanOut& request, const FannedOut& answer,
                       int expected_steps) const;
  void note_cancelled(JoinId join) const;

  storage::Database* database_;
  storage::JoinStore* store_;
  Outbox* outbox_;
  JoinOptions options_;
  Logger log_;
  Metrics metrics_;
};

}  // namespace dovetail
