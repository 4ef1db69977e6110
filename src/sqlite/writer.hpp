// The only writer of a file in this process, with group commit.
//
// Many threads submit. A caller that finds no leader becomes the leader. It takes all waiting
// submissions, runs them in one transaction and commits once. Only then does it wake the other
// callers, and the next caller in the queue becomes the leader. The writer has no thread of its
// own, so a single caller pays only for its fsync. If several callers submit again and again, the
// leader delays the commit so that they share it. The delay is at most the duration of the last
// commit.
//
// A submission that fails undoes only its own work: the transaction runs again with a savepoint
// around each submission. So a body may run more than once.
//
// An interactive transaction has the turn to write, and the connection, until it ends.
//
// A caller whose stop token is set leaves the queue if its work has not begun. So a lock of another
// process does not delay a stop, however long that process holds it.
//
// All times are of the system's clock, because commits and lock waits take real time.
//
// Threads: submit() and Hold from any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/owner_process.hpp"
#include "dovetail/error.hpp"
#include "dovetail/log.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/file_lock.hpp"

namespace dovetail::sqlite {

class Writer {
 public:
  using Body = std::function<void(Connection&)>;

  /// Opens the file for writing, in WAL mode, and creates a missing file. `store` is the name of
  /// the database in logs. Once `*cancelled` is true, calls without a stop token stop waiting for
  /// the lock. wake_all() wakes the calls that sleep.
  Writer(const std::string& path, std::chrono::milliseconds busy_timeout, Logger log,
         std::string store, const std::atomic<bool>* cancelled = nullptr);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Runs `body` in a transaction, perhaps on the thread of another caller. Returns when its writes
  /// are durable. Rethrows an exception of the body. Throws ErrorKind::cancelled if `stop` is
  /// requested before the body begins.
  void submit(const Body& body, const std::stop_token& stop = {});
  void wake_all();

  /// Increases when a commit of this process begins, and again when it ends. It is odd during a
  /// commit.
  [[nodiscard]] std::uint64_t commit_steps() const { return commit_steps_.load(); }

  /// Holds the write lock for a transaction that the caller runs on connection(). The destructor
  /// rolls back an open transaction and releases the lock.
  class Hold {
   public:
    explicit Hold(Writer& writer);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    [[nodiscard]] Connection& connection() const { return *writer_.connection_; }
    void commit();
    void rollback();
    /// Notes that the calling thread uses the transaction now.
    void note_user();

   private:
    Writer& writer_;
  };

 private:
  /// A checkpoint is due after 8 MiB of WAL. SQLite's default of 1,000 frames costs more syncs.
  /// With more frames, a sync takes up to 50 % longer.
  static constexpr int checkpoint_frames = 2'000;

  enum class State : int { waiting, leads, done };
  struct Submission {
    const Body* body;
    std::stop_token stop;
    std::exception_ptr error;
    std::atomic<State> state{State::waiting};
  };
  using Batch = std::vector<Submission*>;

  bool enter(Submission& submission);
  template <class Ready>
  bool yield_until(std::chrono::steady_clock::time_point deadline, const Ready& ready);
  bool wait_until_done(Submission& submission);
  bool withdraw(Submission& submission);
  void lead(Submission& own);
  void give_up(Submission& own, Batch& batch);
  std::size_t take_queued(Batch& batch);
  void await_queued(int count, std::chrono::steady_clock::time_point deadline);
  void run_together(Batch& batch);
  void run_apart(const Batch& batch);
  bool run_in_savepoint(Submission& submission);
  static void mark_done(const Batch& batch, const std::exception_ptr& error);
  void pass_on();

  [[noreturn]] static void throw_busy(const std::string& what);
  [[nodiscard]] static Error cancelled_error();
  /// A call without a stop token ends when the writer is cancelled.
  [[nodiscard]] bool is_stopped(const Submission* waiting) const {
    if (waiting != nullptr && waiting->stop.stop_possible()) return waiting->stop.stop_requested();
    return cancelled_ != nullptr && cancelled_->load();
  }
  static int on_busy(void* writer, int calls);
  /// `waiting` is the caller's submission; null for an interactive transaction.
  void take_turn(const Submission* waiting);
  void end_turn();
  void begin();
  void commit();
  void rollback_if_open() noexcept;
  [[nodiscard]] bool checkpoint_is_due();
  void checkpoint() noexcept;

  core::OwnerProcess process_;
  const std::string path_;
  const std::string store_;
  const std::chrono::milliseconds busy_timeout_;
  const Logger log_;
  FileLock file_lock_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Connection> checkpointer_;
  const std::atomic<bool>* const cancelled_;  // may be null
  // Only the thread that has the turn may use the members from here to turn_mutex_.
  const Submission* beginner_ = nullptr;  // its stop token ends the wait for SQLite's own lock
  std::chrono::steady_clock::time_point busy_since_{};
  std::size_t crowd_ = 1;        // the callers expected in the next transaction
  int wal_frames_ = 0;           // in the WAL after the last commit
  int checkpoint_at_;            // the frames that make the next checkpoint due
  int checkpointed_frames_ = 0;  // in the WAL at the last checkpoint

  // The turn to write. The leader and interactive transactions get it in the order of their
  // requests.
  std::mutex turn_mutex_;
  std::condition_variable turn_changed_;
  std::deque<std::uint64_t> turn_queue_;
  std::uint64_t next_ticket_ = 0;
  bool turn_taken_ = false;
  std::atomic<std::thread::id> holder_{};

  std::mutex queue_mutex_;
  std::deque<Submission*> queue_;
  std::atomic<int> queued_{0};   // the size of the queue, readable without the lock
  std::atomic<int> awaited_{0};  // the leader sleeps until the queue has this size; zero: no sleep
  bool led_ = false;             // there is a leader now
  std::atomic<std::uint64_t> commit_steps_{0};
  std::atomic<std::chrono::nanoseconds> commit_time_{};  // of the last commit
  std::atomic<std::chrono::nanoseconds>
      transaction_time_{};     // of the last transaction: all bodies and the commit
  std::atomic<int> awake_{0};  // waiting callers that do not sleep
  // Other threads need the processor. Until this time, callers sleep instead of yielding.
  std::atomic<std::chrono::steady_clock::time_point> crowded_until_{};
  std::atomic<int> events_{0};  // increases when a state changes; callers wait on it
};

}  // namespace dovetail::sqlite
