// A bounded pool of connections.
//
// Guarantees
//   * At most `max_size` connections exist at once. Further callers wait in turn, up to `patience`.
//     A caller may set another limit for opening, so that several attempts of one call share it.
//   * A broken connection is closed when it is returned. The next caller gets a new one.
//   * Opening is retried with full-jitter backoff while the failure is transient, up to `patience`.
//   * With a budget, each connection has a permit of it. A connection that is given back while
//     callers of other pools wait for a permit is closed. The pool tells the budget whether the
//     database fails. A service pool of a failing database makes one attempt to open a connection:
//     its callers have their own pauses between attempts.
//
// Time limits of waiting for a connection and of opening one are limits of I/O: they use the
// system's clock. Pauses between attempts use the injected one.
//
// Threads: safe. A Lease belongs to one thread at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "core/assert.hpp"
#include "core/owner_process.hpp"
#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/clock.hpp"
#include "dovetail/error.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "storage/connection_budget.hpp"

namespace dovetail::storage {

struct PoolOptions {
  std::size_t max_size = 8;
  std::chrono::milliseconds patience{30'000};
  FullJitterBackoff backoff{};
  Metrics metrics{};
  std::string store{};                         ///< The label of the counters.
  std::shared_ptr<ConnectionBudget> budget{};  ///< Absent: max_size is the only limit.
  ConnectionBudget::Use use = ConnectionBudget::Use::ordinary;
  /// The database's, for the budget. Absent: the pool has its own.
  std::shared_ptr<ConnectionBudget::Account> account{};
};

/// `Connection` has `bool usable() const`. It is false if the connection must not be used again.
template <class Connection>
class Pool {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

 private:
  struct Entry {
    ConnectionBudget::Permit permit{};  // first: it is released after the connection is closed
    std::unique_ptr<Connection> connection{};
    TimePoint idle_since{};
  };

 public:
  /// Opens a connection, unless that takes longer than until the given time.
  using Open =
      std::function<std::unique_ptr<Connection>(const std::stop_token&, TimePoint give_up_at)>;

  Pool(PoolOptions options, std::shared_ptr<Clock> clock, Logger log, Open open)
      : options_(std::move(options)),
        clock_(std::move(clock)),
        log_(std::move(log)),
        open_(std::move(open)) {
    if (options_.max_size == 0) throw std::invalid_argument("max_connections must be at least 1");
    if (options_.budget) {
      if (!options_.account) options_.account = std::make_shared<ConnectionBudget::Account>();
      seat_ = std::make_unique<ConnectionBudget::Seat>(
          options_.budget, options_.use, options_.account, [this] { return close_oldest_idle(); });
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    DOVETAIL_ASSERT(in_use_ == 0);
    if (seat_) seat_->leave();  // from here on, no other pool closes our connections
  }

  class Lease {
   public:
    Lease(Pool& pool, Entry entry) : pool_(&pool), entry_(std::move(entry)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (entry_.connection) pool_->give_back(std::move(entry_));
    }
    Connection& operator*() const { return *entry_.connection; }
    Connection* operator->() const { return entry_.connection.get(); }

   private:
    Pool* pool_;
    Entry entry_;
  };

  /// Throws Error: transient if no connection becomes free within `patience`, otherwise the last
  /// failure of opening one.
  [[nodiscard]] Lease acquire(const std::stop_token& stop = {}) {
    return acquire(stop, std::chrono::steady_clock::now() + options_.patience);
  }
  /// The same. Opening is not retried after `give_up_at`.
  [[nodiscard]] Lease acquire(const std::stop_token& stop, TimePoint give_up_at) {
    const auto patient_until = std::chrono::steady_clock::now() + options_.patience;
    if (auto idle = take_slot(patient_until, stop); idle.connection) {
      return Lease{*this, std::move(idle)};
    }
    try {
      return Lease{*this, open_with_backoff(patient_until, give_up_at, stop)};
    } catch (...) {
      give_back({});
      throw;
    }
  }

  [[nodiscard]] std::size_t in_use() const {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }
  [[nodiscard]] std::size_t idle() const {
    const std::lock_guard lock(mutex_);
    return idle_.size();
  }

  /// Raises max_size.
  void grow(std::size_t more) {
    {
      const std::lock_guard lock(mutex_);
      options_.max_size += more;
    }
    freed_.notify_all();
  }

  /// Closes the idle connections.
  void close_idle() {
    std::deque<Entry> closed;  // outside the lock: closing may take time
    const std::lock_guard lock(mutex_);
    closed.swap(idle_);
    note_idle();
  }

 private:
  /// Waits for a place. Returns an idle connection, or an empty entry if the caller has to open
  /// one.
  Entry take_slot(TimePoint give_up_at, const std::stop_token& stop) {
    std::vector<Entry> broken;  // closed outside the lock
    std::unique_lock lock(mutex_);
    const auto ticket = next_ticket_++;
    waiting_.push_back(ticket);
    const bool mine = freed_.wait_until(lock, stop, give_up_at, [&] {
      return waiting_.front() == ticket && in_use_ < options_.max_size;
    });
    std::erase(waiting_, ticket);
    freed_.notify_all();
    if (!mine) {
      throw Error(
          {stop.stop_requested() ? ErrorKind::cancelled : ErrorKind::transient, "", "acquire"},
          "all " + std::to_string(options_.max_size) + " connections are in use");
    }
    ++in_use_;
    while (!idle_.empty()) {
      auto entry = std::move(idle_.back());
      idle_.pop_back();
      note_idle();
      if (entry.connection->usable()) return entry;
      broken.push_back(std::move(entry));
      ++broken_;
    }
    return {};
  }

  Entry open_with_backoff(TimePoint patient_until, TimePoint give_up_at,
                          const std::stop_token& stop) {
    for (int tries = 0;; ++tries) {
      Entry entry;
      if (seat_) entry.permit = seat_->acquire(patient_until, stop);
      try {
        entry.connection = open(stop, give_up_at);
        if (seat_) seat_->note_success(entry.permit);
        note_opened(tries);
        return entry;
      } catch (const Error& error) {
        if (seat_ && options_.use == ConnectionBudget::Use::service) throw;
        const auto pause = options_.backoff.delay(tries, core::random_unit());
        if (!error.is_transient() || std::chrono::steady_clock::now() + pause >= give_up_at) throw;
        options_.metrics.count("dovetail_storage_connect_failed_total", 1,
                               {{"store", options_.store}});
        // The first failure has the reason. Later ones repeat it.
        log_.write(tries == 0 ? LogLevel::warn : LogLevel::debug, "storage.reconnect",
                   {{"store", options_.store},
                    {"code", error.native_code()},
                    {"tries", tries + 1},
                    {"error", error.what()}});
        entry = {};  // no permit is held during the pause
        if (!clock_->sleep_for(pause, stop)) throw;
      }
    }
  }

  std::unique_ptr<Connection> open(const std::stop_token& stop, TimePoint give_up_at) {
    if (!seat_) return open_(stop, give_up_at);
    seat_->note_opening(true);
    try {
      auto connection = open_(stop, give_up_at);
      seat_->note_opening(false);
      return connection;
    } catch (...) {
      seat_->note_opening(false);
      seat_->note_failure();
      throw;
    }
  }

  /// Counts a connection that replaces a broken one, or that took more than one attempt.
  void note_opened(int failed_tries) {
    bool replaces = false;
    {
      std::lock_guard lock(mutex_);
      replaces = broken_ > 0;
      if (replaces) --broken_;
    }
    if (replaces || failed_tries > 0) {
      options_.metrics.count("dovetail_storage_reconnected_total", 1, {{"store", options_.store}});
    }
  }

  /// The entry has no connection if opening failed.
  void give_back(Entry entry) {
    if (!process_.is_current_process()) {  // a forked child: the connection is the parent's, and so
                                           // may be
                                           // the mutex
      [[maybe_unused]] const auto* leaked = entry.connection.release();
      return;
    }
    const bool broke = entry.connection && !entry.connection->usable();
    if (seat_ && broke) seat_->note_failure();
    if (seat_ && entry.connection && !broke) seat_->note_success(entry.permit);
    if (broke || (seat_ && entry.connection && seat_->is_wanted())) entry = {};
    const bool stays = entry.connection != nullptr;
    {
      std::lock_guard lock(mutex_);
      --in_use_;
      if (broke) ++broken_;
      if (stays) {
        entry.idle_since = std::chrono::steady_clock::now();
        idle_.push_back(std::move(entry));
        note_idle();
      }
    }
    freed_.notify_all();
    if (seat_ && stays) seat_->serve_waiting();  // a caller may have begun to wait just before
  }

  /// For the budget. Returns false if there is no idle connection.
  bool close_oldest_idle() {
    Entry oldest;
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return false;
    oldest = std::move(idle_.front());
    idle_.pop_front();
    note_idle();
    return true;
  }

  /// Called under the mutex after each change of the idle connections.
  void note_idle() {
    if (!seat_) return;
    seat_->note_idle(idle_.empty() ? std::nullopt : std::optional{idle_.front().idle_since});
  }

  PoolOptions options_;
  core::OwnerProcess process_;
  std::shared_ptr<Clock> clock_;
  Logger log_;
  Open open_;
  mutable std::mutex mutex_;
  std::condition_variable_any freed_;
  std::deque<std::uint64_t> waiting_;
  std::uint64_t next_ticket_ = 0;
  std::size_t in_use_ = 0;
  std::size_t broken_ = 0;                        // broken connections that are not replaced yet
  std::unique_ptr<ConnectionBudget::Seat> seat_;  // absent without a budget
  std::deque<Entry> idle_;                        // the least recently used one first
};

}  // namespace dovetail::storage
