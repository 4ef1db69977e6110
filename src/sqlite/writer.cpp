#include "sqlite/writer.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "core/assert.hpp"
#include "dovetail/error.hpp"
#include "sqlite/error.hpp"
#include "sqlite/wal_vfs.hpp"

namespace dovetail::sqlite {
namespace {

constexpr std::size_t max_batch = 1'024;
constexpr std::chrono::microseconds longest_gathering{1'000};
constexpr std::chrono::microseconds slow_yield{2'000};
constexpr std::chrono::milliseconds crowded_for{100};
/// Up to most_awake callers wait for a commit without sleep, for longest_awake at most. If
/// transactions take longer than that, all callers sleep.
constexpr std::chrono::microseconds longest_awake{1'000};
constexpr int most_awake = 8;

int remember_frames(void* target, sqlite3*, const char*, int frames) {
  *static_cast<int*>(target) = frames;
  return SQLITE_OK;
}

std::string journal_mode(Connection& connection) {
  auto cursor = connection.prepare("pragma journal_mode = wal");
  return cursor.step() ? cursor.text(0) : std::string{};
}

// std::atomic::wait spins and yields before it sleeps. During a disk sync, that only takes the
// processor from threads that have work.
void futex_wait(std::atomic<int>& word, int seen, const timespec* timeout = nullptr) {
  ::syscall(SYS_futex, reinterpret_cast<int*>(&word), FUTEX_WAIT_PRIVATE, seen, timeout, nullptr,
            0);
}

void futex_wake_all(std::atomic<int>& word) {
  ::syscall(SYS_futex, reinterpret_cast<int*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
            0);
}

/// Each caller gets its own exception: callers read and destroy it on different threads.
std::exception_ptr own_copy(const std::exception_ptr& shared) {
  try {
    std::rethrow_exception(shared);
  } catch (const Error& error) {
    std::string_view text{error.what()};  // as the constructor of Error composed it
    text.remove_prefix(error.statement().size() + 2);
    if (!error.native_code().empty()) text.remove_suffix(error.native_code().size() + 3);
    return std::make_exception_ptr(
        Error({error.kind(), error.native_code(), error.statement()}, std::string{text}));
  } catch (...) {
    return shared;
  }
}

}  // namespace

Writer::Writer(const std::string& path, std::chrono::milliseconds busy_timeout, Logger log,
               std::string store, const std::atomic<bool>* cancelled)
    : path_(path),
      store_(std::move(store)),
      busy_timeout_(busy_timeout),
      log_(std::move(log)),
      file_lock_(path + "-lock"),
      cancelled_(cancelled),
      checkpoint_at_(checkpoint_frames) {
  // SQLite returns BUSY if several processes switch a new file to WAL mode at the same time.
  if (!file_lock_.try_lock_for(busy_timeout_, [this] { return is_stopped(nullptr); }))
    throw_busy(path_ + ": another process holds the write lock");
  try {
    connection_ = Connection::open(path_, Connection::Mode::read_write, busy_timeout_, wal_vfs());
    const auto mode = journal_mode(*connection_);
    if (mode != "wal")
      throw InvalidOperation(path_ + " does not support WAL (journal_mode is " + mode + ")");
    connection_->script("configure", "pragma journal_size_limit = 67108864");
    sqlite3_wal_hook(connection_->native(), &remember_frames, &wal_frames_);
    sqlite3_busy_handler(connection_->native(), &Writer::on_busy, this);
    checkpointer_ = Connection::open(path_, Connection::Mode::read_write, busy_timeout_);
  } catch (...) {
    file_lock_.unlock();
    throw;
  }
  file_lock_.unlock();
}

void Writer::submit(const Body& body, const std::stop_token& stop) {
  if (holder_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    throw InvalidOperation(
        "this thread has a transaction open on the same SQLite database, and would wait for "
        "itself: "
        "pass that transaction to the call, or end it first");
  }
  Submission submission{&body, stop, nullptr, {}};
  const std::stop_callback wake_waiting(stop, [this] { wake_all(); });
  if (enter(submission) || !wait_until_done(submission)) lead(submission);
  if (submission.error) std::rethrow_exception(submission.error);
}

/// Adds the submission to the queue. Returns true if there is no leader: then the caller leads.
bool Writer::enter(Submission& submission) {
  bool leads = false;
  int count = 0;
  {
    std::lock_guard lock(queue_mutex_);
    queue_.push_back(&submission);
    count = static_cast<int>(queue_.size());
    queued_.store(count);
    leads = !std::exchange(led_, true);
  }
  const int awaited = awaited_.load();
  if (awaited != 0 && count >= awaited) futex_wake_all(queued_);
  return leads;
}

/// Yields the processor until `ready` or the deadline. Returns whether it is ready. On an idle
/// machine this is faster than sleep: the wake-up of a thread, and of an idle processor for it,
/// takes longer than the wait itself. A slow yield means that other threads need the processor.
/// Then this call returns early, and so do all calls for a while.
template <class Ready>
bool Writer::yield_until(std::chrono::steady_clock::time_point deadline, const Ready& ready) {
  for (auto now = std::chrono::steady_clock::now();
       now < deadline && now >= crowded_until_.load();) {
    if (ready()) return true;
    std::this_thread::yield();
    const auto then = std::exchange(now, std::chrono::steady_clock::now());
    if (now - then > slow_yield) crowded_until_.store(now + crowded_for);
  }
  return ready();
}

/// Waits until the queue has `count` submissions, or until the deadline.
void Writer::await_queued(int count, std::chrono::steady_clock::time_point deadline) {
  if (yield_until(deadline, [&] { return queued_.load() >= count; })) return;
  awaited_.store(count);
  for (;;) {
    const int seen = queued_.load();
    const auto left = deadline - std::chrono::steady_clock::now();
    if (seen >= count || left.count() <= 0) break;
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec timeout{0, nanoseconds};  // below longest_gathering
    futex_wait(queued_, seen, &timeout);
  }
  awaited_.store(0);
}

/// Removes the submission from the queue as cancelled. Returns false if its work has begun, or if
/// its caller leads.
bool Writer::withdraw(Submission& submission) {
  {
    std::lock_guard lock(queue_mutex_);
    const auto place = std::ranges::find(queue_, &submission);
    if (place == queue_.end() || submission.state.load() == State::leads) return false;
    queue_.erase(place);
    queued_.store(static_cast<int>(queue_.size()));
  }
  submission.error = std::make_exception_ptr(cancelled_error());
  return true;
}

/// Returns false if the caller became the leader before its submission was done.
bool Writer::wait_until_done(Submission& submission) {
  const auto give_up_at = std::chrono::steady_clock::now() + longest_awake;
  for (;;) {
    const int seen = events_.load(std::memory_order_acquire);
    const auto state = submission.state.load(std::memory_order_acquire);
    if (state != State::waiting) return state == State::done;
    if (is_stopped(&submission) && withdraw(submission)) return true;
    const bool told =
        awake_.fetch_add(1) < most_awake && transaction_time_.load() < longest_awake &&
        yield_until(give_up_at, [&] { return events_.load(std::memory_order_acquire) != seen; });
    awake_.fetch_sub(1);
    if (!told) futex_wait(events_, seen);
  }
}

/// Writes for all waiting callers and for the leader itself, and passes the lead on.
void Writer::lead(Submission& own) {
  Batch batch;
  try {
    take_turn(&own);
  } catch (...) {
    give_up(own, batch);
    mark_done(batch, std::current_exception());
    pass_on();
    return;
  }
  beginner_ = &own;
  const auto begun = std::chrono::steady_clock::now();
  std::exception_ptr error;
  try {
    run_together(batch);
  } catch (...) {
    error = std::current_exception();
    rollback_if_open();
    if (batch.empty()) give_up(own, batch);
  }
  transaction_time_.store(std::chrono::steady_clock::now() - begun);
  // Next time, expect the callers of this transaction and those that arrived during it.
  crowd_ = std::min(batch.size() + static_cast<std::size_t>(queued_.load()), max_batch);
  mark_done(batch, error);
  if (checkpoint_is_due()) {
    wake_all();  // a checkpoint takes long, and callers need not wait for it
    checkpoint();
  }
  beginner_ = nullptr;
  file_lock_.unlock();
  end_turn();
  pass_on();
}

/// No transaction could begin. If the caller was stopped, only the caller leaves the queue, and the
/// next one tries. Otherwise all waiting submissions move to the batch and fail together.
void Writer::give_up(Submission& own, Batch& batch) {
  if (is_stopped(&own)) {
    std::lock_guard lock(queue_mutex_);
    std::erase(queue_, &own);
    queued_.store(static_cast<int>(queue_.size()));
    own.error = std::current_exception();
    return;
  }
  take_queued(batch);
}

/// Moves waiting submissions from the queue to the batch. Returns their number.
std::size_t Writer::take_queued(Batch& batch) {
  if (queued_.load(std::memory_order_relaxed) == 0) return 0;  // leaves the lock to new callers
  std::lock_guard lock(queue_mutex_);
  const auto count = std::min(queue_.size(), max_batch - batch.size());
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(count);
  batch.insert(batch.end(), queue_.begin(), end);
  queue_.erase(queue_.begin(), end);
  queued_.store(static_cast<int>(queue_.size()));
  return count;
}

/// Runs all waiting submissions in one transaction, and those that arrive while it runs. If one
/// fails, the transaction is rolled back. Then it runs again with a savepoint for each submission.
void Writer::run_together(Batch& batch) {
  const auto expected = crowd_;
  const auto patience = std::min<std::chrono::nanoseconds>(commit_time_.load(), longest_gathering);
  const auto start_at = std::chrono::steady_clock::now() + patience;
  begin();  // before take_queued(): until then, callers may leave the queue
  take_queued(batch);
  std::size_t done = 0;
  try {
    Connection::Gathering gathering(*connection_);
    for (;;) {
      for (; done < batch.size(); ++done) (*batch[done]->body)(*connection_);
      if (take_queued(batch) > 0) continue;
      if (done >= expected || std::chrono::steady_clock::now() >= start_at) break;
      await_queued(static_cast<int>(expected - done), start_at);
    }
    gathering.finish();
  } catch (...) {
    rollback_if_open();
    if (batch.size() == 1) throw;
    return run_apart(batch);
  }
  commit();
}

void Writer::run_apart(const Batch& batch) {
  Batch left = batch;
  for (;;) {
    begin();
    const auto lost =
        std::ranges::find_if_not(left, [&](Submission* each) { return run_in_savepoint(*each); });
    if (lost == left.end()) break;
    // That failure rolled back the whole transaction. The other submissions start again without it.
    left.erase(lost);
    std::erase_if(left, [](const Submission* each) { return each->error != nullptr; });
    if (left.empty()) return;
  }
  commit();
}

/// Returns false if SQLite rolled back the whole transaction, not only this submission.
bool Writer::run_in_savepoint(Submission& submission) {
  try {
    connection_->script("savepoint", "savepoint submission");
    (*submission.body)(*connection_);
    connection_->script("release", "release submission");
    return true;
  } catch (...) {
    submission.error = std::current_exception();
  }
  if (!connection_->in_transaction()) return false;
  connection_->script("rollback", "rollback to submission; release submission");
  return true;
}

void Writer::mark_done(const Batch& batch, const std::exception_ptr& error) {
  for (auto* submission : batch) {
    if (error && !submission->error) submission->error = own_copy(error);
    submission->state.store(State::done,
                            std::memory_order_release);  // from here on, it may be destroyed
  }
}

/// Ends the lead of the caller. The next caller in the queue leads, or the next one that arrives.
/// Wakes the finished callers only after that, so that the first of them to submit again finds no
/// leader.
void Writer::pass_on() {
  {
    std::lock_guard lock(queue_mutex_);
    led_ = !queue_.empty();
    if (led_) queue_.front()->state.store(State::leads, std::memory_order_release);
  }
  wake_all();
}

void Writer::wake_all() {
  events_.fetch_add(1, std::memory_order_release);
  futex_wake_all(events_);
}

}  // namespace dovetail::sqlite
