// The turn to write: its holder, its transaction, and the checkpoints between transactions.
#include <sqlite3.h>

#include <algorithm>

#include "dovetail/error.hpp"
#include "sqlite/error.hpp"
#include "sqlite/wal_vfs.hpp"
#include "sqlite/writer.hpp"

namespace dovetail::sqlite {
namespace {

/// The interval at which threads that wait for a lock check their stop tokens.
constexpr std::chrono::milliseconds stop_check_interval{20};

}  // namespace

void Writer::throw_busy(const std::string& what) {
  throw Error({ErrorKind::transient, "5", "begin"}, what);
}

Error Writer::cancelled_error() {
  return Error({ErrorKind::cancelled, "", "begin"}, "stopped while it waited for the write lock");
}

void Writer::take_turn(const Submission* waiting) {
  const auto stopped = [&] { return is_stopped(waiting); };
  {
    const auto give_up_at = std::chrono::steady_clock::now() + busy_timeout_;
    std::unique_lock lock(turn_mutex_);
    const auto ticket = next_ticket_++;
    turn_queue_.push_back(ticket);
    const auto mine = [&] { return !turn_taken_ && turn_queue_.front() == ticket; };
    while (!mine() && !stopped() && std::chrono::steady_clock::now() < give_up_at) {
      turn_changed_.wait_for(lock, stop_check_interval, mine);
    }
    const bool gets_it = mine();
    std::erase(turn_queue_, ticket);
    if (!gets_it) {
      turn_changed_.notify_all();
      if (stopped()) throw cancelled_error();
      throw_busy(path_ + ": a transaction of this process holds the write lock");
    }
    turn_taken_ = true;
  }
  if (!file_lock_.try_lock_for(busy_timeout_, stopped)) {
    end_turn();
    if (stopped()) throw cancelled_error();
    throw_busy(path_ + ": another process holds the write lock");
  }
}

/// SQLite calls it while a connection that is not Dovetail's holds the lock of the file. Returns
/// zero to give up.
int Writer::on_busy(void* writer, int calls) {
  auto& self = *static_cast<Writer*>(writer);
  const auto now = std::chrono::steady_clock::now();
  if (calls == 0) self.busy_since_ = now;
  if (self.is_stopped(self.beginner_) || now - self.busy_since_ >= self.busy_timeout_) return 0;
  const auto pause = std::min(std::chrono::milliseconds{1 + calls}, stop_check_interval);
  std::this_thread::sleep_for(pause);
  return 1;
}

void Writer::end_turn() {
  {
    std::lock_guard lock(turn_mutex_);
    turn_taken_ = false;
  }
  turn_changed_.notify_all();
}

void Writer::begin() {
  connection_->clear_failure();
  discard_gathered(connection_->native());
  static const std::string text = "begin immediate";
  try {
    connection_->control("begin", text);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::transient && is_stopped(beginner_)) throw cancelled_error();
    throw;
  }
}

void Writer::commit() {
  struct Step {
    std::atomic<std::uint64_t>& count;
    explicit Step(std::atomic<std::uint64_t>& steps) : count(steps) { count.fetch_add(1); }
    ~Step() { count.fetch_add(1); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
  } const step(commit_steps_);
  const auto started = std::chrono::steady_clock::now();
  static const std::string text = "commit";
  connection_->control("commit", text, true);
  commit_time_.store(std::chrono::steady_clock::now() - started);
}

void Writer::rollback_if_open() noexcept {
  if (connection_->in_transaction()) {
    sqlite3_exec(connection_->native(), "rollback", nullptr, nullptr, nullptr);
  }
}

bool Writer::checkpoint_is_due() {
  if (wal_frames_ < checkpointed_frames_) {  // SQLite has restarted the WAL since then
    checkpoint_at_ = checkpoint_frames;
    checkpointed_frames_ = 0;
  }
  return wal_frames_ >= checkpoint_at_;
}

/// Copies the WAL to the database file. An empty write transaction prevents commits during that
/// time: in this process, in other processes, and on connections that are not Dovetail's.
void Writer::checkpoint() noexcept try {
  begin();
  int moved = 0;
  const int code = sqlite3_wal_checkpoint_v2(
      checkpointer_->native(), nullptr, SQLITE_CHECKPOINT_PASSIVE, &checkpointed_frames_, &moved);
  rollback_if_open();
  // A reader may prevent a restart of the WAL. So let the WAL grow before the next attempt, instead
  // of an attempt at every commit.
  checkpoint_at_ = checkpointed_frames_ + checkpoint_frames;
  if (code != SQLITE_OK) raise(checkpointer_->native(), code, "checkpoint");
} catch (const std::exception& error) {
  rollback_if_open();
  log_.write(LogLevel::warn, "sqlite.checkpoint_failed",
             {{"store", store_}, {"error", error.what()}});
}

Writer::Hold::Hold(Writer& writer) : writer_(writer) {
  if (writer_.holder_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    throw InvalidOperation(
        "this thread has a transaction open on the same SQLite database already");
  }
  writer_.take_turn(nullptr);
  try {
    writer_.begin();
  } catch (...) {
    writer_.file_lock_.unlock();
    writer_.end_turn();
    throw;
  }
  writer_.holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

Writer::Hold::~Hold() {
  if (!writer_.process_.is_current_process())
    return;  // a forked child: the transaction is the parent's
  writer_.rollback_if_open();
  writer_.holder_.store({}, std::memory_order_relaxed);
  writer_.file_lock_.unlock();
  writer_.end_turn();
}

void Writer::Hold::commit() {
  writer_.process_.require();
  try {
    writer_.commit();
  } catch (...) {
    writer_.rollback_if_open();
    throw;
  }
  if (writer_.checkpoint_is_due()) writer_.checkpoint();
}

void Writer::Hold::note_user() {
  writer_.process_.require();
  writer_.holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

void Writer::Hold::rollback() {
  writer_.process_.require();
  writer_.rollback_if_open();
}

}  // namespace dovetail::sqlite
