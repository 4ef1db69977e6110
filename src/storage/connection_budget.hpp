// A limit of the connections that the pools of many databases have together.
//
// Guarantees
//   * Never more than `limit` permits exist. A pool has a permit for each of its connections, also
//     for the idle ones.
//   * `reserved` permits are kept for service pools. Other pools have at most the rest, so that
//     handlers cannot prevent the renewal of leases.
//   * When no permit is left, an idle connection of some pool is closed, the least recently used
//     one first. When there is none, callers wait, first come, first served. A caller that waits
//     only for permits of ordinary pools does not delay service pools.
//
// Time limits are limits of I/O: they use the system's clock.
//
// Locks: no method may be called with the lock of a pool held, except Seat::note_idle(). The budget
// calls a pool without holding its own lock.
//
// Threads: safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "core/owner_process.hpp"

namespace dovetail::storage {

class ConnectionBudget {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Use { ordinary, service };

  /// Throws std::invalid_argument unless 0 <= reserved < limit.
  ConnectionBudget(std::size_t limit, std::size_t reserved);
  ConnectionBudget(const ConnectionBudget&) = delete;
  ConnectionBudget& operator=(const ConnectionBudget&) = delete;
  ~ConnectionBudget();

  /// Entitles its owner to one connection. Destroy it after the connection is closed.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), use_(other.use_) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(use_, other.use_);
      return *this;
    }
    ~Permit() {
      if (budget_ != nullptr) budget_->release(use_);
    }

   private:
    friend class ConnectionBudget;
    Permit(ConnectionBudget& budget, Use use) : budget_(&budget), use_(use) {}
    ConnectionBudget* budget_ = nullptr;
    Use use_ = Use::ordinary;
  };

 private:
  struct Member;

 public:
  /// The place of one pool in the budget.
  class Seat {
   public:
    /// `close_oldest_idle` closes the idle connection of the pool that was used least recently, and
    /// returns false when there is none. It is called on threads of other pools.
    Seat(std::shared_ptr<ConnectionBudget> budget, Use use,
         std::function<bool()> close_oldest_idle);
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() { leave(); }
    /// Waits for a call of `close_oldest_idle` that is under way. No other call follows.
    void leave();

    /// Waits for a permit. Throws Error: transient after `give_up_at`, cancelled after a stop.
    [[nodiscard]] Permit acquire(TimePoint give_up_at, const std::stop_token& stop);
    /// Returns whether a caller waits that could use the permit of this pool.
    [[nodiscard]] bool is_wanted() const;
    /// Tells since when the oldest idle connection of the pool has been idle; absent: none is.
    void note_idle(std::optional<TimePoint> oldest);
    /// After note_idle(): closes an idle connection if a caller waits for its permit.
    void serve_waiting();

   private:
    std::shared_ptr<ConnectionBudget> budget_;
    std::shared_ptr<Member> member_;
  };

 private:
  static constexpr auto none_idle = std::numeric_limits<TimePoint::rep>::max();

  struct Member {
    explicit Member(Use given) : use(given) {}
    const Use use;
    std::atomic<TimePoint::rep> oldest_idle{none_idle};
    std::mutex mutex;  // taken before those of the pool and of the budget
    std::function<bool()> close_oldest_idle;
  };
  struct Waiter {
    Use use;
    bool granted = false;
  };

  [[nodiscard]] Permit acquire(Use use, TimePoint give_up_at, const std::stop_token& stop);
  [[nodiscard]] bool fits(Use use) const;
  [[nodiscard]] bool is_wanted(Use use);
  void take(Use use);
  void release(Use use);
  void grant();
  bool close_an_idle_one(Use use);
  [[nodiscard]] std::shared_ptr<Member> least_recently_used(Use use);
  [[noreturn]] void give_up(bool stopped) const;

  const std::size_t limit_;
  const std::size_t ordinary_limit_;
  const core::OwnerProcess process_;
  std::mutex mutex_;
  std::condition_variable_any granted_;
  std::size_t total_ = 0;
  std::size_t ordinary_ = 0;
  std::list<Waiter> waiting_;
  std::vector<std::shared_ptr<Member>> members_;
};

}  // namespace dovetail::storage
