// Leases: locks across processes and machines that expire when their holder dies.
//
//   if (auto runner = LeaseRunner::try_start(platform.leases(), "nightly-report")) {
//     for (const auto& page : pages) {
//       runner->throw_if_lost();
//       write(page, runner->token());  // the store rejects a token lower than the last one
//     }
//   }  // released here
//
// A lease has a name, an owner, an expiry and a fencing token. LeaseRunner holds a lease and renews
// it. Leases has the single operations.
//
// Guarantees
//   * By the database's clock, a name has at most one holder at a time. A name with `limit` slots
//     has at most that many.
//   * Tokens increase: each grant of a name has a higher token than all grants before, also after
//     release and expiry.
//   * Only the holder can renew, with owner and token, and only before the lease expires. A renewal
//     never shortens the lease.
//   * A LeaseRunner treats its lease as lost before another owner can acquire it: when a
//     renewal is refused, when no renewal is confirmed in time, and when its process was stopped
//     for too long. In the last case is_lost() returns true at once; stop_token() fires as soon as
//     the runner's thread runs.
// Not guaranteed
//   * That a holder stops when its lease expires. Only a check of the token at the protected
//     resource can prevent late effects.
//   * Expiry at the known time when the database's clock jumps, or when a lagging standby takes
//     over: the lease may then expire earlier than its holder expects. Tokens still increase.
//
// Threads: Leases and a LeaseRunner may be shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"

namespace dovetail {

namespace storage {
class Database;
class LeaseStore;
}  // namespace storage

struct Lease {
  std::string name{};
  int slot = 0;  ///< 1 and up for a slot; 0 for an exclusive lease.
  std::string owner{};
  std::int64_t token = 0;  ///< Higher than the token of every earlier grant of this name.
  WallTime expires_at{};   ///< All times come from the database's clock.
  WallTime acquired_at{};
  WallTime renewed_at{};
};

struct LeasePage {
  std::optional<std::string> after_name{};  ///< The name of the last lease of the previous page.
  int after_slot = 0;                       ///< The slot of that lease.
  int size = 1'000;                         ///< 1 to 10,000.
};

class LeaseRunner;
struct LeaseRunnerOptions;

class Leases {
 public:
  Leases(storage::Database& database, Logger log, Metrics metrics);

  // Names and owners have 1 to 255 characters of UTF-8. Durations are 10 ms to 24 h. Values out of
  // range are rejected before any I/O.

  /// Acquires the lease. Returns nullopt when the lease is held, even by the same owner.
  ///
  /// If the connection breaks, the call is retried and returns the lease that the first try
  /// acquired.
  [[nodiscard]] std::optional<Lease> try_acquire(std::string_view name, std::string_view owner,
                                                 std::chrono::milliseconds duration,
                                                 const std::stop_token& stop = {});

  /// Acquires one of `limit` (1 to 10,000) slots. Returns nullopt when all are held. Slots are
  /// independent of the lease of the same name. An owner may hold several.
  [[nodiscard]] std::optional<Lease> try_acquire_slot(std::string_view name, int limit,
                                                      std::string_view owner,
                                                      std::chrono::milliseconds duration,
                                                      const std::stop_token& stop = {});

  /// Renews the lease until `duration` from now, but never shortens it. Returns the new expiry, or
  /// nullopt when the lease is no longer held.
  std::optional<WallTime> renew(const Lease& lease, std::chrono::milliseconds duration,
                                const std::stop_token& stop = {});

  /// Returns whether the lease was still held.
  bool release(const Lease& lease, const std::stop_token& stop = {});

  /// The lease, or nullopt when it is not held.
  [[nodiscard]] std::optional<Lease> find(std::string_view name);

  /// All held leases, including slots, in the order of their names.
  [[nodiscard]] std::vector<Lease> list(const LeasePage& page = {});

  /// Deletes the rows of leases that expired longer than `age` ago and returns their number. A
  /// started Platform calls it.
  std::size_t purge(std::chrono::seconds age, const std::stop_token& stop = {});

 private:
  friend class LeaseRunner;
  friend bool run_while_leader(Leases& leases, std::string_view name,
                               const std::function<void(LeaseRunner& runner)>& lead,
                               const LeaseRunnerOptions& options);
  [[nodiscard]] Clock& clock() const;
  void note_lost(const Lease& lease) const;
  void note_failure(std::string_view event, const Lease& lease, std::string_view error) const;
  std::optional<Lease> acquire(std::string_view name, std::optional<int> limit,
                               std::string_view owner, std::chrono::milliseconds duration,
                               const std::stop_token& stop);

  storage::Database* database_;
  storage::LeaseStore* store_;
  Logger log_;
  Metrics metrics_;
};

/// Thrown by LeaseRunner::throw_if_lost().
class LostLease : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct LeaseRunnerOptions {
  std::string owner{};  ///< Empty: host, process id and a random part.
  /// 100 ms to 24 h. When a holder dies, other owners wait this long.
  std::chrono::milliseconds duration{30'000};
  /// The fraction of the duration after which the runner renews, at the latest: 0.1 to 0.8. It
  /// renews up to a tenth of the duration earlier, at random, so that many runners do not renew at
  /// once.
  double renew_at = 0.6;
  int limit = 0;           ///< 1 and up: acquires one of this many slots. 0: exclusive.
  std::stop_token stop{};  ///< Also fires the runner's stop_token().
};

/// Holds a lease, renews it in the background, and releases it when it is destroyed. In a child of
/// fork(), the runner of the parent throws InvalidOperation, and its destructor does nothing.
class LeaseRunner {
 public:
  /// Returns nullopt when another owner holds the lease. `leases` must outlive the runner.
  [[nodiscard]] static std::optional<LeaseRunner> try_start(Leases& leases, std::string_view name,
                                                            const LeaseRunnerOptions& options = {});

  LeaseRunner(LeaseRunner&&) noexcept;
  LeaseRunner& operator=(LeaseRunner&&) noexcept;
  /// Fires stop_token() and releases the lease. If the database does not answer within some
  /// seconds, the lease expires instead. Must not run in a callback of the runner's own
  /// stop_token().
  ~LeaseRunner();

  /// The lease as it was granted.
  [[nodiscard]] const Lease& lease() const;
  [[nodiscard]] std::int64_t token() const { return lease().token; }

  /// Fires when the lease is lost, or when no renewal was confirmed until shortly before it
  /// expires.
  [[nodiscard]] std::stop_token stop_token() const;
  [[nodiscard]] bool is_lost() const;
  void throw_if_lost() const;

  /// Renews now. Returns false when the renewal was refused or the database gave no answer. After a
  /// success, the next automatic renewal is due `renew_at` of the duration later. A failure does
  /// not change that time.
  bool try_renew_now();

 private:
  struct State;
  explicit LeaseRunner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Calls `lead` whenever this process becomes the leader of `name`. When leadership is lost,
/// runner.stop_token() fires; after `lead` returns, the process is a candidate again.
///
/// Returns true when `lead` returns while the process is still the leader, false after
/// `options.stop`. Rethrows exceptions of `lead`. Retries transient database errors and throws
/// others.
bool run_while_leader(Leases& leases, std::string_view name,
                      const std::function<void(LeaseRunner& runner)>& lead,
                      const LeaseRunnerOptions& options = {});

}  // namespace dovetail
