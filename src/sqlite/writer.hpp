// The one writer of a file in this process, with group commit.
//
// Many threads submit; whoever finds the writer free becomes it: takes all that wait, runs them in
// one transaction, commits once, and only then wakes the others, of whom the next in line takes
// over. There is no thread of its own to hand the work to, so that a single caller pays for its
// fsync and nothing else. When several callers come again and again, the writer holds the commit
// back for up to as long as the last one took, so that they share it.
//
// A submission that fails undoes its own work and nobody else's: the transaction is run again with
// a savepoint around each. A body may therefore run more than once.
//
// An interactive transaction takes the writer's turn and its connection for as long as it lasts.
//
// A caller whose stop token is set leaves the queue as long as nobody has begun its work. So a lock
// of another process, which lasts as long as that process likes, does not delay a stop.
//
// All times are of the system's clock: they are the times that commits and waiting for locks take.
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

  /// Opens the file for writing, creating it if need be, and puts it into WAL mode. `store` is the
  /// database's name in logs. Once `*cancelled` is true, calls without a stop token do not wait
  /// for the lock any more; wake_all() tells those that sleep.
  Writer(const std::string& path, std::chrono::milliseconds busy_timeout, Logger log,
         std::string store, const std::atomic<bool>* cancelled = nullptr);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Runs `body` in a transaction, perhaps on another caller's thread; returns when what it wrote
  /// is durable, or throws what it threw. Throws ErrorKind::cancelled when `stop` comes before the
  /// body has begun.
  void submit(const Body& body, const std::stop_token& stop = {});
  void wake_all();

  /// Grows when a commit of this process begins, and again when it ends: odd while one is under
  /// way.
  [[nodiscard]] std::uint64_t commit_steps() const { return commit_steps_.load(); }

  /// The write lock, for a transaction that the caller drives on connection(). Ends with the
  /// object.
  class Hold {
   public:
    explicit Hold(Writer& writer);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    [[nodiscard]] Connection& connection() const { return *writer_.connection_; }
    void commit();
    void rollback();
    /// The calling thread is the one that uses the transaction now.
    void note_user();

   private:
    Writer& writer_;
  };

 private:
  /// A checkpoint is due after 8 MiB of WAL. SQLite's default of 1,000 frames costs more syncs.
  /// With more frames, a sync takes up to half as long again.
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
  // Whoever has the turn may touch what follows, up to the turn itself.
  const Submission* beginner_ = nullptr;  // whose stop token ends waiting for SQLite's own lock
  std::chrono::steady_clock::time_point busy_since_{};
  std::size_t crowd_ = 1;        // how many callers took part lately
  int wal_frames_ = 0;           // in the WAL after the last commit
  int checkpoint_at_;            // frames: when the next checkpoint is due
  int checkpointed_frames_ = 0;  // that the last checkpoint found

  // Whose turn it is to write: the writer's thread or an interactive transaction, first come, first
  // served.
  std::mutex turn_mutex_;
  std::condition_variable turn_changed_;
  std::deque<std::uint64_t> turn_queue_;
  std::uint64_t next_ticket_ = 0;
  bool turn_taken_ = false;
  std::atomic<std::thread::id> holder_{};

  std::mutex queue_mutex_;
  std::deque<Submission*> queue_;
  std::atomic<int> queued_{0};   // the queue's size, for a look without the lock
  std::atomic<int> awaited_{0};  // the writer sleeps until so many are queued; zero: it does not
  bool led_ = false;             // somebody is the writer now
  std::atomic<std::uint64_t> commit_steps_{0};
  std::atomic<std::chrono::nanoseconds> commit_time_{};  // of the last commit
  std::atomic<std::chrono::nanoseconds>
      transaction_time_{};     // from its beginning, with what all who shared it did
  std::atomic<int> awake_{0};  // of those who wait to be told
  // Others want the processor: until then sleep, do not yield.
  std::atomic<std::chrono::steady_clock::time_point> crowded_until_{};
  std::atomic<int> events_{0};  // grows whenever a submission's state changes; waited on by all
};

}  // namespace dovetail::sqlite
