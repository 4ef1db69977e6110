// Timers and cron jobs: messages of the outbox that come at a time.
//
//   const auto reminder = platform.timers().schedule({.topic = "reminder.send", .payload = json,
//   .due_at = tomorrow}); platform.timers().cancel(reminder);
//
//   platform.jobs().create_or_update({.name = "nightly-cleanup", .topic = "cleanup.run", .cron = "0
//   0 2 * * *",
//                                     .time_zone = "Europe/Berlin"});
//
// A timer fires once, a job runs whenever its cron expression (cron.hpp) says. Either way what
// comes is a message of the outbox, for the handler of its topic: with its leases, retries and dead
// letters. Every started Platform looks after timers and jobs; there may be any number of them, and
// none is the leader.
//
// Guarantees
//   * A timer never fires early by the database's clock, and never twice: it becomes its message in
//   the transaction that
//     marks it as fired. cancel() answers true once, and never after it fired.
//   * A time of a job's schedule has one run at most, however many processes there are, and
//   whichever way clocks are set.
//   * What a job's misfire policy says happens with times that passed while nobody looked after it,
//   bounded.
//   * A run's status follows its message: done when that is acked, failed when it is a dead letter.
// Not guaranteed
//   * Punctuality. A timer fires when a Platform that works on its database comes to it: usually
//   within milliseconds, later
//     when thousands are due at once or none is started.
//
// Threads: Timers and Jobs may be shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/cron.hpp"
#include "dovetail/outbox.hpp"
#include "dovetail/time_zone.hpp"

namespace dovetail {

namespace storage {
class JobStore;
class QueueConsumer;
class QueueProducer;
class TimerStore;
struct RunCounts;
struct NewTime;
}  // namespace storage

// --- timers

/// What to schedule. Texts are UTF-8 without NUL; the limits are those of EnqueueRequest.
struct TimerRequest {
  std::string topic{};
  std::string payload{};
  WallTime due_at{};  ///< What is past fires at once.
  /// Instead of due_at: so much later than now, by the database's clock. Zero to 100 years.
  std::optional<std::chrono::milliseconds> delay{};
  std::optional<std::string> correlation_id{};
  /// While a timer with the same key has not fired, a second one is not stored: schedule() answers
  /// the first one's id.
  std::optional<std::string> unique_key{};
  /// Your own id makes a repeated call harmless, while the first is kept.
  std::optional<TimerId> timer_id{};
  Headers headers{};
  int priority = 0;
};

/// What schedule() answers: the id of the timer, which is also that of its message, and whether
/// this call stored it.
class ScheduledTimer : public TimerId {
 public:
  ScheduledTimer() = default;
  ScheduledTimer(TimerId id, bool stored) : TimerId(id), stored_(stored) {}
  [[nodiscard]] bool stored() const { return stored_; }

 private:
  bool stored_ = true;
};

struct Timer {
  TimerId id{};
  std::string topic{};
  std::string payload{};  ///< Not in lists.
  std::optional<std::string> correlation_id{};
  std::optional<std::string> unique_key{};
  WallTime due_at{};
  WallTime created_at{};
  /// ready: it waits. in_progress: a processor of your own holds it. done: it fired. failed: your
  /// processor gave it up.
  MessageStatus status = MessageStatus::ready;
  std::optional<WallTime>
      next_attempt_at{};  ///< While it waits: when it is due, or comes back to your processor.
  std::optional<WallTime> fired_at{};
  int attempts = 0;  ///< Of a processor of your own.
  std::optional<std::string> last_error{};
};

struct TimerPage {
  std::optional<WallTime> after_time{};  ///< next_attempt_at of the last timer of the page before …
  TimerId after_id{};                    ///< … and its id.
  int size = 100;                        ///< 1 to 10,000.
};

class Timers {
 public:
  Timers(storage::Database& database, QueueOptions options, Logger log, Metrics metrics);

  /// Durable on return.
  ScheduledTimer schedule(const TimerRequest& request);
  /// Stored with your transaction.
  ScheduledTimer schedule(Transaction& transaction, const TimerRequest& request);
  /// All or none; answers in the order of the requests.
  std::vector<ScheduledTimer> schedule_many(std::span<const TimerRequest> requests);
  std::vector<ScheduledTimer> schedule_many(Transaction& transaction,
                                            std::span<const TimerRequest> requests);

  /// Removes a timer; false when it has fired, is with a processor of yours at this moment, or
  /// never was.
  bool cancel(TimerId timer);
  bool cancel(Transaction& transaction, TimerId timer);
  /// Lets it fire at another time; false as above.
  bool reschedule(TimerId timer, WallTime due_at);
  bool reschedule(Transaction& transaction, TimerId timer, WallTime due_at);
  /// The same, so much later than now by the database's clock.
  bool reschedule(TimerId timer, std::chrono::milliseconds delay);
  bool reschedule(Transaction& transaction, TimerId timer, std::chrono::milliseconds delay);

  /// Also one that fired, while history is kept (QueueOptions::retain_done).
  [[nodiscard]] std::optional<Timer> get(TimerId timer);
  /// Those that wait, the next one first; of one topic, or all.
  [[nodiscard]] std::vector<Timer> list(const std::optional<std::string>& topic = {},
                                        const TimerPage& page = {});

  /// For processors of your own: claim, ack, abandon, fail, reap_expired. What you claim does not
  /// fire by itself.
  [[nodiscard]] WorkQueue& queue() { return queue_; }

  // --- for schedulers of your own: a started Platform does all of this by itself

  /// Makes messages of all timers that are due; answers how many.
  std::size_t fire_due(const std::stop_token& stop = {});

  struct Fired {
    std::size_t count = 0;
    bool more = false;                                    ///< Others may be due: call again.
    std::optional<std::chrono::microseconds> next_due{};  ///< From now, if one waits.
  };
  /// One transaction of it: up to `most` timers, so that others can work in between.
  Fired fire_some(const std::stop_token& stop = {}, int most = 500);

 private:
  bool move(TimerId timer, const storage::NewTime& time);
  bool move(Transaction& transaction, TimerId timer, const storage::NewTime& time);

  storage::Database* database_;
  storage::TimerStore* store_;
  storage::QueueProducer* producer_;
  storage::QueueConsumer* consumer_;
  Logger log_;
  Metrics metrics_;
  WorkQueue queue_;
  const OwnerToken owner_ = OwnerToken::generate();
  struct Marks;
  std::shared_ptr<Marks> marks_;  ///< How far into a crowd of due timers this process has come.
};

// --- jobs

/// What becomes of times that cannot be kept.
///
/// They may have passed while no process looked after the job; or they come while it runs as often
/// as it may, and have to wait for their turn.
enum class Misfire : std::uint8_t {
  coalesce = 0,  ///< One run, for the latest of them: a later time replaces the one that waits.
  all = 1,   ///< Passed: the latest JobRequest::misfire_limit of them. Waiting: so many, the first.
  skip = 2,  ///< Passed: none that is more than a minute late. Waiting: none.
};

[[nodiscard]] std::string_view to_string(Misfire misfire);

struct JobRequest {
  std::string name{};   ///< 1 to 100 characters; the job's identity.
  std::string topic{};  ///< Of its messages.
  std::string cron{};   ///< See cron.hpp: five fields, or six with seconds first.
  std::string payload{};
  std::string time_zone = "UTC";  ///< An IANA name.
  Misfire misfire = Misfire::coalesce;
  int misfire_limit = 10;         ///< 1 to 1,000.
  std::optional<bool> enabled{};  ///< Absent: as it is; a new job is.
  /// So many of its runs may be under way at a time, zero for any number; further ones wait, as
  /// many as `misfire` lets them. A run is under way from when its message is stored in the outbox
  /// until that is done or dead, also between two tries.
  int max_concurrent_runs = 1;
  std::chrono::milliseconds jitter{
      0};  ///< Each run of the schedule comes up to so much later, at random: up to an hour.
  /// A name it had before: if there is a job of that name and none of this, that one is renamed and
  /// keeps its runs.
  std::string formerly{};
};

/// Of a run: ready until a handler begins, in_progress, then done or failed.
using RunStatus = MessageStatus;

struct Job {
  JobId id{};
  std::string name{};
  std::string topic{};
  std::string payload{};
  std::string cron{};
  std::string time_zone{};
  Misfire misfire = Misfire::coalesce;
  int misfire_limit = 10;
  bool enabled = true;
  int max_concurrent_runs = 1;
  std::chrono::milliseconds jitter{0};
  WallTime created_at{};
  WallTime updated_at{};
  std::optional<WallTime> next_due_at{};  ///< Absent when it is disabled.
  /// The scheduled time of the latest run that has ended, or that failed at least once and is
  /// retried.
  std::optional<WallTime> last_run_at{};
  std::optional<RunStatus>
      last_run_status{};  ///< Of that run: done, or failed (also while it is retried).
  /// Why the job cannot be scheduled (a cron expression or time zone that cannot be understood).
  /// Absent once a scheduler has understood it.
  std::optional<std::string> last_error{};
};

struct JobRun {
  JobRunId id{};  ///< Also of its message.
  std::string job{};
  WallTime scheduled_time{};
  RunStatus status = RunStatus::ready;
  bool triggered = false;  ///< By trigger(), not by its schedule.
  WallTime created_at{};
  std::optional<WallTime> started_at{};  ///< When a handler of a Platform last began with it.
  std::optional<WallTime> ended_at{};
  std::optional<std::string> output{};
  std::optional<std::string> last_error{};
  int attempts = 0;  ///< Tries that have failed, while its message is kept.
};

struct RunPage {
  std::optional<WallTime> before{};  ///< The scheduled_time of the last run of the page before.
  int size = 100;                    ///< 1 to 10,000.
};

struct ScheduleOptions {
  QueueOptions timers{};  ///< Sizes and history of timers.
  /// Whether this process, when it is started, fires timers. Without, they wait for others, or for
  /// a processor of yours.
  bool fire_timers = true;
  /// How long runs that have ended are kept.
  std::chrono::seconds retain_runs = std::chrono::hours{24 * 7};
};

class Jobs {
 public:
  Jobs(storage::Database& database, Outbox& outbox, ScheduleOptions options, Logger log,
       Metrics metrics);

  /// Creates the job, or changes it: at once, with the first time of a new schedule after now.
  /// Calling it again with the same request, as services do when they start, changes nothing: times
  /// that were missed meanwhile are not forgotten.
  ///
  /// Throws CronError or std::invalid_argument for what cannot work, before any I/O.
  JobId create_or_update(const JobRequest& request);

  /// Removes the job and its runs that no handler has begun, with their messages. Those under way
  /// end as they will, and what has ended stays until retain_runs. False when there is none.
  bool remove(std::string_view name);

  /// A run beside the schedule, also of a disabled job; it waits like others when the job runs as
  /// often as it may. Nothing when there is no such job.
  std::optional<JobRunId> trigger(std::string_view name);

  /// From now on: what passed while it was disabled is not made up for. False when there is no such
  /// job.
  bool enable(std::string_view name);
  /// No more runs by its schedule, also none of those that wait for their turn. False when there is
  /// no such job.
  bool disable(std::string_view name);

  [[nodiscard]] std::optional<Job> get(std::string_view name);
  /// All of them, by name.
  [[nodiscard]] std::vector<Job> list();
  /// Of one job, also of a removed one, the latest first.
  [[nodiscard]] std::vector<JobRun> runs(std::string_view name, const RunPage& page = {});

  /// The run that a handler's message stands for, if any.
  [[nodiscard]] static std::optional<JobRunId> run_of(const Message& message);
  /// What a run has to say, up to 64 KiB; with ctx.transaction(), together with its ack. False when
  /// there is no such run.
  bool set_output(JobRunId run, std::string_view output);
  bool set_output(Transaction& transaction, JobRunId run, std::string_view output);

  [[nodiscard]] const ScheduleOptions& options() const { return options_; }

  // --- for schedulers of your own: a started Platform does all of this by itself

  /// Makes the runs that are due, and their messages; answers how many.
  std::size_t schedule_due(const std::stop_token& stop = {});
  /// How long until there is something to do again.
  [[nodiscard]] std::optional<std::chrono::microseconds> next_due(const std::stop_token& stop = {});
  /// Throws when a stored job has a time zone, and this system has no time zone files.
  void require_zones();
  /// Notes that a handler begins with a run.
  void note_started(JobRunId run);
  /// Deletes runs that ended longer than `age` ago; answers how many.
  std::size_t purge_runs(std::chrono::seconds age, const std::stop_token& stop = {});

 private:
  bool set_enabled(std::string_view name, bool enabled);
  /// What a transaction did; counted and logged after its commit.
  struct Progress;
  void store(storage::WriteSession& session, const JobRequest& request, Job& answer,
             Progress& progress);
  /// Adds the runs that are due, starts those that may start, and plans when to look again.
  void advance(storage::WriteSession& session, Job& job, WallTime now, Progress& progress);
  void try_advance(storage::WriteSession& session, Job& job, WallTime now, Progress& progress);
  void add_due_runs(storage::WriteSession& session, Job& job, WallTime now,
                    storage::RunCounts& counts, Progress& progress);
  std::size_t start_waiting(storage::WriteSession& session, const Job& job, int most);
  void note(const Progress& progress) const;
  void announce(const Progress& progress);

  storage::Database* database_;
  storage::JobStore* store_;
  Outbox* outbox_;
  ScheduleOptions options_;
  Logger log_;
  Metrics metrics_;
  struct Broken;
  static std::shared_ptr<Broken> make_broken();
  std::shared_ptr<Broken> broken_;  ///< Jobs that this process cannot understand.
};

}  // namespace dovetail
