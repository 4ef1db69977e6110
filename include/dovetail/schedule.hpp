// Timers and cron jobs: messages of the outbox that are created at a given time.
//
//   const auto reminder = platform.timers().schedule(
//       {.topic = "reminder.send", .payload = json, .due_at = tomorrow});
//   platform.timers().cancel(reminder);
//
//   platform.jobs().create_or_update({.name = "nightly-cleanup",
//                                     .topic = "cleanup.run",
//                                     .cron = "0 0 2 * * *",
//                                     .time_zone = "Europe/Berlin"});
//
// A timer fires once. A job runs at the times of its cron expression (cron.hpp). Both create a
// message of the outbox for the handler of its topic, with the outbox's leases, retries and dead
// letters. Every started Platform fires timers and runs jobs. Any number of processes may do so;
// there is no leader.
//
// Guarantees
//   * A timer never fires early by the database's clock, and never twice: one transaction creates
//     the message and marks the timer as fired. cancel() returns true at most once, and never after
//     the timer fired.
//   * A scheduled time of a job has at most one run, whatever the number of processes and however
//     clocks are set.
//   * The misfire policy of a job decides what happens to times that passed while no process was
//     running. The number of late runs is bounded.
//   * The status of a run follows its message: done after the ack, failed when it is a dead letter.
// Not guaranteed
//   * Punctuality. A timer usually fires within milliseconds of its time. It fires later when
//     thousands are due at once or no Platform is started.
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
class WriteSession;
struct ClaimedEntry;
struct NewTime;
struct RunCounts;
}  // namespace storage

// --- timers

/// A timer to schedule. Texts are UTF-8 without NUL. The limits are those of EnqueueRequest.
struct TimerRequest {
  std::string topic{};
  std::string payload{};
  WallTime due_at{};  ///< A time in the past fires at once.
  /// Replaces due_at: a delay from now, by the database's clock. Zero to 100 years.
  std::optional<std::chrono::milliseconds> delay{};
  std::optional<std::string> correlation_id{};
  /// While a timer with the same key has not fired, a second one is not stored, and schedule()
  /// returns the id of the first.
  std::optional<std::string> unique_key{};
  /// With your own id, a repeated call stores nothing while the first timer is kept.
  std::optional<TimerId> timer_id{};
  Headers headers{};
  int priority = 0;
};

/// The result of schedule(): the id of the timer, which is also the id of its message, and whether
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
  std::string payload{};  ///< Empty in lists.
  std::optional<std::string> correlation_id{};
  std::optional<std::string> unique_key{};
  WallTime due_at{};
  WallTime created_at{};
  /// ready: waiting. in_progress: claimed by your own processor. done: fired. failed: your
  /// processor gave it up.
  MessageStatus status = MessageStatus::ready;
  /// While it is ready: when it is due, or when your processor may claim it again.
  std::optional<WallTime> next_attempt_at{};
  std::optional<WallTime> fired_at{};
  int attempts = 0;  ///< Failed attempts of your own processor.
  std::optional<std::string> last_error{};
};

struct TimerPage {
  std::optional<WallTime>
      after_time{};    ///< next_attempt_at of the last timer of the previous page.
  TimerId after_id{};  ///< The id of that timer.
  int size = 100;      ///< 1 to 10,000.
};

class Timers {
 public:
  Timers(storage::Database& database, QueueOptions options, Logger log, Metrics metrics);

  /// Durable on return.
  ScheduledTimer schedule(const TimerRequest& request);
  /// Stores the timer in your transaction.
  ScheduledTimer schedule(Transaction& transaction, const TimerRequest& request);
  /// Stores all or none. Returns the results in the order of the requests.
  std::vector<ScheduledTimer> schedule_many(std::span<const TimerRequest> requests);
  std::vector<ScheduledTimer> schedule_many(Transaction& transaction,
                                            std::span<const TimerRequest> requests);

  /// Removes a timer. Returns false when it has fired, is claimed by your own processor, or does
  /// not exist.
  bool cancel(TimerId timer);
  bool cancel(Transaction& transaction, TimerId timer);
  /// Changes the time of a timer. Returns false in the same cases.
  bool reschedule(TimerId timer, WallTime due_at);
  bool reschedule(Transaction& transaction, TimerId timer, WallTime due_at);
  /// The same, with a delay from now by the database's clock.
  bool reschedule(TimerId timer, std::chrono::milliseconds delay);
  bool reschedule(Transaction& transaction, TimerId timer, std::chrono::milliseconds delay);

  /// Also finds fired timers while they are kept (QueueOptions::retain_done).
  [[nodiscard]] std::optional<Timer> find(TimerId timer);
  /// Timers that have not fired, of one topic or of all, next one first.
  [[nodiscard]] std::vector<Timer> list(const std::optional<std::string>& topic = {},
                                        const TimerPage& page = {});

  /// For your own processors: claim, ack, abandon, fail, reap_expired. A claimed timer does not
  /// fire.
  [[nodiscard]] WorkQueue& queue() { return queue_; }

  // --- for your own schedulers: a started Platform makes these calls

  /// Fires all due timers and returns their number.
  std::size_t fire_due(const std::stop_token& stop = {});

  struct Fired {
    std::size_t count = 0;
    bool more = false;                                    ///< More timers may be due: call again.
    std::optional<std::chrono::microseconds> next_due{};  ///< From now; absent when no timer waits.
  };
  /// Fires up to `most` timers in one transaction, so that other transactions can run in between.
  Fired fire_some(const std::stop_token& stop = {}, int most = 500);

 private:
  void enqueue_fired(storage::WriteSession& session,
                     std::span<const storage::ClaimedEntry> claimed) const;
  void note_fired(std::span<const storage::ClaimedEntry> claimed) const;
  bool move_in(storage::WriteSession& session, TimerId timer, const storage::NewTime& time) const;
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
  std::shared_ptr<Marks> marks_;  ///< The position of this process among many due timers.
};

// --- jobs

/// What happens to scheduled times at which a job cannot run.
///
/// A time may pass while no process is running (missed). Or the job may have reached
/// max_concurrent_runs at that time, so that the new run must wait (waiting).
enum class Misfire : std::uint8_t {
  coalesce = 0,  ///< One run, for the latest time. A later time replaces a waiting run.
  /// Missed: the latest JobRequest::misfire_limit runs. Waiting: the first misfire_limit runs.
  all = 1,
  skip = 2,  ///< Missed: no run that is more than a minute late. Waiting: no run.
};

[[nodiscard]] std::string_view to_string(Misfire misfire);

struct JobRequest {
  std::string name{};   ///< 1 to 100 characters; identifies the job.
  std::string topic{};  ///< The topic of its messages.
  std::string cron{};   ///< See cron.hpp: five fields, or six with seconds first.
  std::string payload{};
  std::string time_zone = "UTC";  ///< An IANA name.
  Misfire misfire = Misfire::coalesce;
  int misfire_limit = 10;         ///< 1 to 1,000.
  std::optional<bool> enabled{};  ///< Absent: unchanged; a new job is enabled.
  /// The maximum number of active runs; zero: no limit. Further runs wait, as `misfire` allows. A
  /// run is active from the time its message is stored in the outbox until the message is done or
  /// failed, including the time between retries.
  int max_concurrent_runs = 1;
  /// The maximum of the random delay of each scheduled run: zero to one hour.
  std::chrono::milliseconds jitter{0};
  /// A former name. If a job with that name exists and none with `name`, it is renamed and keeps
  /// its runs.
  std::string formerly{};
};

/// The status of a run: ready until a handler starts, then in_progress, then done or failed.
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
  std::optional<WallTime> next_due_at{};  ///< Absent when the job is disabled.
  /// The scheduled time of the latest run that ended, or that failed at least once and is retried.
  std::optional<WallTime> last_run_at{};
  /// The status of that run: done, or failed (also while it is retried).
  std::optional<RunStatus> last_run_status{};
  /// Why the job cannot be scheduled: an invalid cron expression or time zone. Absent after a
  /// scheduler has accepted the job.
  std::optional<std::string> last_error{};
};

struct JobRun {
  JobRunId id{};  ///< Also the id of its message.
  std::string job{};
  WallTime scheduled_time{};
  RunStatus status = RunStatus::ready;
  bool triggered = false;  ///< Created by trigger(), not by the schedule.
  WallTime created_at{};
  std::optional<WallTime> started_at{};  ///< When a handler of a Platform last started it.
  std::optional<WallTime> ended_at{};
  std::optional<std::string> output{};
  std::optional<std::string> last_error{};
  int attempts = 0;  ///< Failed attempts, while the message is kept.
};

struct RunPage {
  std::optional<WallTime> before{};  ///< The scheduled_time of the last run of the previous page.
  int size = 100;                    ///< 1 to 10,000.
};

struct ScheduleOptions {
  QueueOptions timers{};  ///< Limits and retention of timers.
  /// Whether this process fires timers when it is started. If not, timers wait for other processes
  /// or for your own processor.
  bool fire_timers = true;
  /// How long ended runs are kept.
  std::chrono::seconds retain_runs = std::chrono::hours{24 * 7};
};

class Jobs {
 public:
  Jobs(storage::Database& database, Outbox& outbox, ScheduleOptions options, Logger log,
       Metrics metrics);

  /// Creates or changes the job. A new schedule applies at once, for times in the future. A
  /// repeated call with the same request, for example at every start of a service, changes nothing:
  /// missed times are kept.
  ///
  /// Throws CronError or std::invalid_argument before any I/O.
  JobId create_or_update(const JobRequest& request, const std::stop_token& stop = {});

  /// Removes the job, its runs that no handler has started, and their messages. Started runs
  /// continue, and ended runs stay until retain_runs. Returns false when there is no such job.
  bool remove(std::string_view name);

  /// Creates a run outside the schedule, also of a disabled job. The run waits when
  /// max_concurrent_runs is reached. Returns nullopt when there is no such job.
  std::optional<JobRunId> trigger(std::string_view name);

  /// Enables the job from now on. Times that passed while it was disabled are not caught up.
  /// Returns false when there is no such job.
  bool enable(std::string_view name);
  /// Stops the schedule and drops the waiting runs. Returns false when there is no such job.
  bool disable(std::string_view name);

  [[nodiscard]] std::optional<Job> find(std::string_view name);
  /// All jobs, by name.
  [[nodiscard]] std::vector<Job> list();
  /// The runs of a job, also of a removed one, latest first.
  [[nodiscard]] std::vector<JobRun> runs(std::string_view name, const RunPage& page = {});

  /// The run that a message belongs to, if any.
  [[nodiscard]] static std::optional<JobRunId> run_of(const Message& message);
  /// Stores a text with the run, up to 64 KiB. With ctx.transaction() it commits together with the
  /// ack. Returns false when there is no such run.
  bool set_output(JobRunId run, std::string_view output);
  bool set_output(Transaction& transaction, JobRunId run, std::string_view output);

  [[nodiscard]] const ScheduleOptions& options() const { return options_; }

  // --- for your own schedulers: a started Platform makes these calls

  /// Creates the due runs and their messages, and returns their number.
  std::size_t schedule_due(const std::stop_token& stop = {});
  /// The time until the next call is needed.
  [[nodiscard]] std::optional<std::chrono::microseconds> next_due(const std::stop_token& stop = {});
  /// Throws when a stored job has a time zone and this system has no time zone files.
  void require_zones(const std::stop_token& stop = {});
  /// Records that a handler starts a run.
  void note_started(JobRunId run);
  /// Deletes runs that ended longer than `age` ago and returns their number.
  std::size_t purge_runs(std::chrono::seconds age, const std::stop_token& stop = {});

 private:
  bool set_enabled(std::string_view name, bool enabled);
  /// The changes of a transaction. They are counted and logged after its commit.
  struct Progress;
  void store(storage::WriteSession& session, const JobRequest& request, Job& answer,
             Progress& progress);
  /// Creates the due runs, starts those that may start, and sets the time of the next check.
  void advance(storage::WriteSession& session, Job& job, WallTime now, Progress& progress);
  void try_advance(storage::WriteSession& session, Job& job, WallTime now, Progress& progress);
  void add_due_runs(storage::WriteSession& session, Job& job, WallTime now,
                    storage::RunCounts& counts, Progress& progress);
  std::size_t start_waiting(storage::WriteSession& session, const Job& job, int most);
  void note(const Progress& progress) const;

  storage::Database* database_;
  storage::JobStore* store_;
  Outbox* outbox_;
  ScheduleOptions options_;
  Logger log_;
  Metrics metrics_;
  struct Broken;
  static std::shared_ptr<Broken> make_broken();
  std::shared_ptr<Broken> broken_;  ///< Jobs that this process cannot schedule.
};

}  // namespace dovetail
