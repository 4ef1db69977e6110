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
//   * Databases that fail share a quarter of the permits, and none of the reserved ones. They are
//     called probes. So databases of a server that does not answer cannot take the permits of the
//     others, however many they are. A connection that is opened, or a call that succeeds, ends the
//     failure.
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
#include "dovetail/error.hpp"

namespace dovetail::storage {

/// The database fails, and other failing databases use all probes: nothing was sent to it.
class ProbeUnavailable : public Error {
 public:
  using Error::Error;
};

class ConnectionBudget {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Use { ordinary, service };

  /// What the pools of one database have in common.
  class Account {
   public:
    /// The last call failed.
    [[nodiscard]] bool is_failing() const { return failing_; }
    /// When a service pool last got a permit, or a call on one of its connections last ended.
    [[nodiscard]] TimePoint served_at() const { return TimePoint{TimePoint::duration{served_at_}}; }

   private:
    friend class ConnectionBudget;
    void note_served() { served_at_ = std::chrono::steady_clock::now().time_since_epoch().count(); }
    std::atomic<TimePoint::rep> served_at_{0};
    // Written under the budget's mutex.
    std::atomic<bool> failing_{false};
    std::size_t ordinary_ = 0;  // permits of the ordinary pool
    std::size_t service_ = 0;   // of the service pool
    std::size_t probes_ = 0;    // of both
    std::size_t opening_ = 0;   // connections that are being opened
  };

  /// Whether a database has permits that callers of other databases wait for.
  enum class Contention {
    none,
    calls,     ///< Calls under way have them.
    connects,  ///< At least one is being opened: perhaps the server does not answer.
  };
  [[nodiscard]] Contention contention(const Account& account) const;

  /// How long a service of a failing database waits for a probe.
  static constexpr std::chrono::milliseconds probe_patience{1'000};

  /// Throws std::invalid_argument unless 0 <= reserved < limit.
  ConnectionBudget(std::size_t limit, std::size_t reserved);
  ConnectionBudget(const ConnectionBudget&) = delete;
  ConnectionBudget& operator=(const ConnectionBudget&) = delete;
  ~ConnectionBudget();

 private:
  struct Member;

 public:
  /// Entitles its owner to one connection. Destroy it after the connection is closed.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          member_(std::move(other.member_)),
          probe_(other.probe_) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(member_, other.member_);
      std::swap(probe_, other.probe_);
      return *this;
    }
    ~Permit() {
      if (budget_ != nullptr) budget_->release(*member_, probe_);
    }

   private:
    friend class ConnectionBudget;
    Permit(ConnectionBudget& budget, std::shared_ptr<Member> member, bool probe)
        : budget_(&budget), member_(std::move(member)), probe_(probe) {}
    ConnectionBudget* budget_ = nullptr;
    std::shared_ptr<Member> member_;
    bool probe_ = false;
  };

  /// The place of one pool in the budget.
  class Seat {
   public:
    /// `close_oldest_idle` closes the idle connection of the pool that was used least recently, and
    /// returns false when there is none. It is called on threads of other pools.
    Seat(std::shared_ptr<ConnectionBudget> budget, Use use, std::shared_ptr<Account> account,
         std::function<bool()> close_oldest_idle);
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() { leave(); }
    /// Waits for a call of `close_oldest_idle` that is under way. No other call follows.
    void leave();

    /// Waits for a permit. Throws Error: transient after `give_up_at`, cancelled after a stop. A
    /// service of a failing database waits for `probe_patience` at most, and throws
    /// ProbeUnavailable: threads of many failing databases must not wait for one another.
    [[nodiscard]] Permit acquire(TimePoint give_up_at, const std::stop_token& stop);
    /// The database has answered on the connection of this permit.
    void note_success(Permit& permit);
    /// A connection could not be opened, or broke.
    void note_failure();
    /// A connection is being opened, or no longer.
    void note_opening(bool begins);
    [[nodiscard]] bool is_failing() const { return member_->account->is_failing(); }
    /// Whether a caller waits who could have the permit of this pool.
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
    Member(Use given, std::shared_ptr<Account> of_database)
        : use(given), account(std::move(of_database)) {}
    [[nodiscard]] std::size_t& held() const {
      return use == Use::service ? account->service_ : account->ordinary_;
    }
    const Use use;
    const std::shared_ptr<Account> account;
    std::atomic<TimePoint::rep> oldest_idle{none_idle};
    std::mutex mutex;  // taken before those of the pool and of the budget
    std::function<bool()> close_oldest_idle;
  };
  struct Waiter {
    Member* member;
    bool granted = false;
    bool probe = false;
  };
  /// The permits that exist.
  struct Load {
    std::size_t total = 0;
    std::size_t ordinary = 0;  // of ordinary pools, and probes
    std::size_t probes = 0;
  };

  [[nodiscard]] Permit acquire(const std::shared_ptr<Member>& member, TimePoint give_up_at,
                               const std::stop_token& stop);
  /// Whether the pool may have one more permit beside these.
  [[nodiscard]] bool fits(const Load& load, const Member& member) const;
  [[nodiscard]] static Load without_one(Load load, Use use, bool probe);
  /// Whether a waiting caller could have a permit of this kind.
  [[nodiscard]] bool is_wanted(Use use, bool probe) const;
  /// Returns whether the permit is a probe.
  bool take(Member& member);
  void release(Member& member, bool probe);
  void grant();
  bool close_an_idle_one(const Member& member);
  [[nodiscard]] std::shared_ptr<Member> least_recently_used(const Member& member);
  [[noreturn]] void give_up(const Member& member, bool stopped) const;

  const std::size_t limit_;
  const std::size_t ordinary_limit_;
  const std::size_t probe_limit_;
  const core::OwnerProcess process_;
  mutable std::mutex mutex_;
  std::condition_variable_any granted_;
  Load load_;
  std::list<Waiter> waiting_;
  std::vector<std::shared_ptr<Member>> members_;
};

}  // namespace dovetail::storage
