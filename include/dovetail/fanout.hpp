// Fan-out on a schedule: one message per shard, for the shards whose work is due.
//
//   auto planner = [&](const dovetail::FanoutPlan& plan) {
//     return dovetail::FanoutCandidates::in_pages(…);  // or a std::vector
//   };
//   platform.fanout().add({.topic = "etl",
//                          .work_key = "payments",
//                          .cron = "*/10 * * * *",
//                          .every = 10min,
//                          .jitter = 1min},
//                         planner);
//   platform.fanout().on("etl", "payments",
//                        [](const dovetail::FanoutSlice& slice, dovetail::HandlerContext& ctx) {
//                          // Handle the changes of slice.shard_key between slice.window_start and
//                          // slice.window_end. Write through ctx.transaction().
//                        });
//   platform.start();
//
// A fan-out has a topic (`etl`) and work keys (`payments`, `vendors`), which are kinds of work. A
// shard is a tenant, a customer or a region: a key that your planner names. A slice is one shard
// and one work key in one window of time. A cron job runs a round: it asks the planner for
// candidates, selects those that are due, and enqueues a message of the outbox for each. The
// handler of on() processes the slice and moves the cursor of the shard to the end of the window.
//
// Guarantees
//   * A slice is due when it was never completed, or when `every` plus its part of `jitter` have
//     passed since the message of its last completed window was created, by the database's clock.
//     The part of the jitter depends on the keys alone, so it is the same in every round.
//   * While the message of a slice waits or is in progress, the slice is not enqueued again,
//     whatever the number of processes that plan at the same time.
//   * The windows of a shard neither overlap nor leave gaps: a window begins where the last
//     completed one ended, and ends `settle` before its message was created.
//   * With on(), the writes through ctx.transaction() and the completion of the slice commit
//     together with the ack: they take effect exactly once. This also holds when two messages exist
//     for the same window, for example after a replay of a dead letter: one of them is completed,
//     and the other one is skipped.
//   * A dead letter does not block its shard. When `every` plus its jitter have passed since the
//     message was enqueued, a round enqueues a new message. Its window begins where the failed one
//     began, so nothing is missed. cursors() shows the failure.
//   * A cadence that set_cadence() has set stays when a service registers its fan-out again.
//   * If a process dies during a round, the slices that it has enqueued stay. The round is run
//     again and enqueues the rest.
// Not guaranteed
//   * That each row is in a window, if rows are committed late. On PostgreSQL, a transaction may
//     write the current time into a row and commit after the handler of that window has read: no
//     later window contains the row. Set FanoutRequest::settle to more than your longest
//     transaction takes, or read by commit order. SQLite has one writer at a time: if your code
//     takes the time after it began its transaction, no row is late.
//   * Order between shards.
//
// Threads: a Fanout may be shared between threads. The threads of the platform call planners and
// handlers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/handler.hpp"
#include "dovetail/join.hpp"
#include "dovetail/lease.hpp"
#include "dovetail/schedule.hpp"

namespace dovetail {

namespace storage {
class FanoutStore;
}  // namespace storage

// --- planners

/// A shard that may have work to do.
struct FanoutCandidate {
  std::string shard_key{};  ///< 1 to 256 characters.
  /// 1 to 100 characters, not `done`. Empty: the work key of the plan.
  std::string work_key{};
};

/// The request to a planner.
struct FanoutPlan {
  std::string topic{};
  std::optional<std::string> work_key{};  ///< Absent: all work keys of the planner.
  /// Fires when the round must end: at shutdown, after FanoutRequest::timeout, or when the lease of
  /// the round is lost.
  std::stop_token stop{};
};

/// The candidates of a round, read page by page, so that memory does not grow with their number.
class FanoutCandidates {
 public:
  /// Replaces `page` with the next candidates. Returns false when there are no more; an empty page
  /// is not the end. A page of some thousand candidates is a good size.
  using NextPage = std::function<bool(std::vector<FanoutCandidate>& page)>;
  /// Returns the next candidate, or nullopt when there are no more.
  using Next = std::function<std::optional<FanoutCandidate>()>;

  /// All of them at once, for a list that fits into memory. A planner may return the list itself.
  FanoutCandidates(std::vector<FanoutCandidate> all);
  [[nodiscard]] static FanoutCandidates in_pages(NextPage next_page);
  [[nodiscard]] static FanoutCandidates one_by_one(Next next);

  bool next_page(std::vector<FanoutCandidate>& page) { return next_page_(page); }

 private:
  explicit FanoutCandidates(NextPage next_page) : next_page_(std::move(next_page)) {}
  NextPage next_page_;
};

/// Names the candidates of a round. It need not know which of them are due.
///
/// A candidate with a bad key is left out, logged (`fanout.bad_candidate`) and counted; the others
/// are planned. A candidate that is named twice is enqueued once. If the planner throws, the slices
/// that were already enqueued stay, and the round is retried after a backoff, like every message.
using FanoutPlannerFunction = std::function<FanoutCandidates(const FanoutPlan& plan)>;

/// A planner as a class, for planners with state.
class FanoutPlanner {
 public:
  virtual ~FanoutPlanner() = default;
  [[nodiscard]] virtual FanoutCandidates candidates(const FanoutPlan& plan) = 0;
};

// --- slices

/// One shard and one work key in one window of time.
struct FanoutSlice {
  std::string topic{};
  std::string work_key{};
  std::string shard_key{};
  std::optional<WallTime> window_start{};  ///< The end of the last completed window, if any.
  /// The creation time of the message minus FanoutRequest::settle, and not before window_start.
  WallTime window_end{};

  /// For your own workers: reads the slice of a message. Throws std::invalid_argument when the
  /// message has no slice.
  [[nodiscard]] static FanoutSlice from(const Message& message);
};

using FanoutHandlerFunction =
    std::function<void(const FanoutSlice& slice, HandlerContext& context)>;

/// `fanout:{topic}:{work_key}`, the topic of the messages of slices.
[[nodiscard]] std::string fanout_topic(std::string_view topic, std::string_view work_key);
/// `fanout:{topic}:done`, the topic of the messages that end rounds (FanoutRequest::join).
[[nodiscard]] std::string fanout_done_topic(std::string_view topic);

// --- fan-outs

/// A fan-out to add. Texts are UTF-8 without NUL.
struct FanoutRequest {
  std::string topic{};  ///< 1 to 100 characters, without a colon.
  /// 1 to 100 characters, not `done`. Absent: all work keys of the planner.
  std::optional<std::string> work_key{};
  std::string cron = "*/5 * * * *";  ///< The times of the rounds; see cron.hpp.
  std::string time_zone = "UTC";     ///< An IANA name.
  /// The time between the message of a completed slice and its next message: 1 ms to 3650 days.
  std::chrono::milliseconds every = std::chrono::seconds{300};
  /// Each slice waits longer by a fixed part of this: 0 to 3650 days.
  std::chrono::milliseconds jitter = std::chrono::seconds{60};
  /// Windows end this time before their message is created: 0 to 1 day. So a window contains the
  /// rows of all transactions that take less time between writing a row's time and their commit.
  /// Zero, the default, suits rows that are never committed late, and handlers that do not select
  /// rows by time. It changes the windows only, not how often a slice is due.
  std::chrono::milliseconds settle{0};
  /// The lease that makes one process plan at a time: 1 s to 24 h. It is renewed during the round.
  std::chrono::milliseconds lease = std::chrono::seconds{90};
  /// The time limit of one round; zero: no limit. When it ends, FanoutPlan::stop fires.
  std::chrono::milliseconds timeout = std::chrono::minutes{10};
  /// Starts a join (join.hpp) for each round that enqueues a slice. When the round and all of its
  /// slices have ended, a message of fanout_done_topic() follows. Its payload is a JSON object with
  /// topic, work_key, join_id and status (`completed`, or `failed` if a slice or the round failed).
  bool join = false;
};

/// The cadence of a fan-out as it is stored.
struct FanoutPolicy {
  std::string topic{};
  std::optional<std::string> work_key{};  ///< Absent: all work keys without their own policy.
  std::chrono::milliseconds every{0};     ///< The values that apply.
  std::chrono::milliseconds jitter{0};
  /// The registered values. Absent when only an operator has set this work key.
  std::optional<std::chrono::milliseconds> default_every{};
  std::optional<std::chrono::milliseconds> default_jitter{};
  std::chrono::milliseconds settle{0};  ///< See FanoutRequest::settle.
  bool set_by_operator = false;         ///< set_cadence() has replaced the registered values.
  std::optional<std::string> job{};     ///< The name of the job that runs the rounds, if any.
  WallTime created_at{};
  WallTime updated_at{};
};

enum class FanoutStatus : std::uint8_t {
  idle,         ///< No message.
  ready,        ///< Its message waits.
  in_progress,  ///< A worker has claimed its message.
  failed,       ///< Its message is a dead letter. A later round enqueues a new one.
};

[[nodiscard]] std::string_view to_string(FanoutStatus status);

/// The progress of one shard and work key.
struct FanoutCursor {
  std::string topic{};
  std::string work_key{};
  std::string shard_key{};
  std::optional<WallTime> last_completed_at{};  ///< The end of the last completed window.
  FanoutStatus status = FanoutStatus::idle;
  std::optional<MessageId> message_id{};  ///< The message of the slice that is not completed.
  std::optional<WallTime> enqueued_at{};  ///< When a slice was last enqueued.
  std::optional<std::string> last_error{};
  WallTime created_at{};
  WallTime updated_at{};
};

struct FanoutCursorPage {
  std::optional<std::string> work_key{};        ///< Only cursors of this work key.
  std::optional<std::string> after_work_key{};  ///< Of the last cursor of the previous page.
  std::string after_shard_key{};                ///< Of that cursor.
  int size = 100;                               ///< 1 to 10,000.
};

/// The result of a round.
struct FanoutRound {
  std::size_t candidates = 0;
  std::size_t enqueued = 0;
  std::size_t rejected = 0;  ///< Candidates with bad keys.
  std::size_t replaced = 0;  ///< Slices whose last message ended without a completion.
};

class Fanout {
 public:
  Fanout(storage::Database& database, Outbox& outbox, Joins& joins, Leases& leases, Jobs& jobs,
         Logger log, Metrics metrics);
  Fanout(const Fanout&) = delete;
  Fanout& operator=(const Fanout&) = delete;
  ~Fanout();

  // Topics, work keys and cadences out of range are rejected before any I/O.

  /// Adds a fan-out: stores its cadence and its cron job, and registers the planner. Call it before
  /// Platform::start(), in every process that may plan. A repeated registration by a redeployed
  /// service changes the cron expression and the registered cadence, but not a cadence that
  /// set_cadence() has set.
  ///
  /// Throws InvalidOperation when this topic and work key were added before, or after start(). If
  /// `stop` fires while it waits for the database, it throws Error with ErrorKind::cancelled; then
  /// it may be called again.
  void add(const FanoutRequest& request, FanoutPlannerFunction planner,
           const std::stop_token& stop = {});
  void add(const FanoutRequest& request, std::shared_ptr<FanoutPlanner> planner);

  /// Registers the handler of the slices of a topic and work key. Call it before
  /// Platform::start(). If the handler snoozes, the slice is not completed.
  void on(std::string_view topic, std::string_view work_key, FanoutHandlerFunction function,
          HandlerOptions options = {});

  /// Removes a fan-out that the code no longer adds: its cadence and its cron job. The messages and
  /// the cursors stay, so that a fan-out that is added again continues. Returns false when there is
  /// no such fan-out.
  bool remove(std::string_view topic, const std::optional<std::string>& work_key = {});

  /// Completes a slice, for workers without on(). The next window begins at slice.window_end; an
  /// earlier time than that of the message is allowed when only a part was processed. Returns
  /// false, and changes nothing, when another message has completed this window: roll your
  /// transaction back then.
  [[nodiscard]] bool mark_completed(const FanoutSlice& slice);
  [[nodiscard]] bool mark_completed(Transaction& transaction, const FanoutSlice& slice);

  /// Replaces the cadence of a work key, or of all keys without their own policy. An absent jitter
  /// stays as it is. Applies to the next page of candidates. Returns false when neither the work
  /// key nor all keys of the topic are registered.
  bool set_cadence(std::string_view topic, const std::optional<std::string>& work_key,
                   std::chrono::milliseconds every,
                   std::optional<std::chrono::milliseconds> jitter = {});
  /// Returns to the registered cadence. Returns false when there is no such policy.
  bool reset_cadence(std::string_view topic, const std::optional<std::string>& work_key);

  /// Runs a round now, in addition to the schedule. With a work key: the round of its registration,
  /// or of the registration for all keys if it has none of its own. Without one: the rounds of all
  /// work keys of the topic. Slices that are not due are not enqueued. A process that has added the
  /// fan-out runs it. Returns the runs; none when there is no such fan-out.
  std::vector<JobRunId> run_now(std::string_view topic,
                                const std::optional<std::string>& work_key = {});

  /// Ordered by topic and work key.
  [[nodiscard]] std::vector<FanoutPolicy> policies(const std::optional<std::string>& topic = {});
  /// Ordered by work key and shard key.
  [[nodiscard]] std::vector<FanoutCursor> cursors(std::string_view topic,
                                                  const FanoutCursorPage& page = {});

  /// Deletes the cursors of shards that have vanished: no planner has named them for `age` (0 to
  /// 3650 days) or longer, although they were due. Call it while rounds are run: without rounds, it
  /// treats every shard as vanished. Cursors with a message or a dead letter stay. Returns the
  /// number of deleted cursors.
  ///
  /// If such a shard returns later, its first slice has no window_start.
  std::size_t purge_cursors(std::string_view topic, const std::optional<std::string>& work_key,
                            std::chrono::milliseconds age, const std::stop_token& stop = {});

  // --- for your own coordinators: the cron job makes this call

  /// Enqueues the due slices among the candidates, in small transactions, without a lease. Any
  /// number of callers may do so at the same time. Throws InvalidOperation when there is no policy
  /// for the topic, and Error with ErrorKind::cancelled after `stop`.
  FanoutRound enqueue_due(const FanoutPlan& plan, FanoutCandidates candidates);

  /// The function with which add() and on() register handlers of the outbox. The runtime sets it
  /// once.
  using AddHandler =
      std::function<void(std::string_view topic, HandlerFunction function, HandlerOptions options)>;
  void use_handlers(AddHandler add_handler);

 private:
  struct Registration;
  struct RoundJoin;
  void add_handler(std::string_view topic, HandlerFunction function, HandlerOptions options);
  void handle_round(const Registration& registration, const Message& message,
                    HandlerContext& context);
  void handle_slice(const FanoutHandlerFunction& function, const Message& message,
                    HandlerContext& context);
  FanoutRound run_round(const FanoutPlan& plan, FanoutCandidates candidates, RoundJoin* join);
  FanoutRound plan_pages(const FanoutPlan& plan, std::span<const FanoutCandidate> candidates,
                         RoundJoin* join);
  FanoutRound plan_page(const FanoutPlan& plan, std::span<const FanoutCandidate> page,
                        RoundJoin* join);
  void keep_good(const FanoutPlan& plan, std::vector<FanoutCandidate>& page,
                 FanoutRound& round) const;
  void require_policy(const FanoutPlan& plan);
  void note_round(const FanoutPlan& plan, const FanoutRound& round) const;
  [[nodiscard]] bool is_superseded(const FanoutSlice& slice);
  void note_slice(std::string_view event, std::string_view metric, const FanoutSlice& slice,
                  LogLevel level) const;

  storage::Database* database_;
  storage::FanoutStore* store_;
  Outbox* outbox_;
  Joins* joins_;
  Leases* leases_;
  Jobs* jobs_;
  Logger log_;
  Metrics metrics_;
  AddHandler add_handler_;
  struct Registrations;
  std::unique_ptr<Registrations> registrations_;
};

}  // namespace dovetail
