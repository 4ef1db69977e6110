// Leases: a lock across processes and machines that ends by itself when its holder does.
//
//   if (auto runner = LeaseRunner::try_start(platform.leases(), "nightly-report")) {
//     for (const auto& page : pages) {
//       runner->throw_if_lost();
//       write(page, runner->token());  // who guards what is written compares the tokens
//     }
//   }  // released here
//
// A lease has an owner, a time when it ends, and a fencing token. LeaseRunner keeps one alive;
// Leases is what it is made of.
//
// Guarantees
//   * By the database's clock, a name has at most one holder at a time, and a name with `limit`
//   slots at most that many.
//   * Tokens grow: each grant of a name has a higher token than all before it, also after release
//   and expiry.
//   * Renewing needs owner and token, succeeds only while the lease is held, and never shortens it.
//   * A LeaseRunner counts itself as lost before its lease can be another's: when a renewal was
//   refused, when none was
//     confirmed in time, and when its process was stopped for too long: is_lost() knows that at
//     once, stop_token() as soon as a thread of it runs.
// Not guaranteed
//   * That a holder which does not look does nothing after its lease has ended. Only a check of the
//   token, where the effect
//     is, can do that.
//   * Anything against a database whose clock jumps, or that is replaced by a standby which lags: a
//   lease may then end
//     sooner than its holder can know. Tokens compare all the same.
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
  int slot = 0;  ///< From 1 when it is one of several; zero for the one and only.
  std::string owner{};
  std::int64_t token = 0;  ///< Higher than that of any grant of this name before.
  WallTime expires_at{};   ///< By the database's clock, as all times here.
  WallTime acquired_at{};
  WallTime renewed_at{};
};

struct LeasePage {
  std::optional<std::string> after_name{};  ///< The last lease of the page before …
  int after_slot = 0;                       ///< … and its slot.
  int size = 1'000;                         ///< 1 to 10,000.
};

class LeaseRunner;
struct LeaseRunnerOptions;

class Leases {
 public:
  Leases(storage::Database& database, Logger log, Metrics metrics);

  // Names and owners have 1 to 255 characters of UTF-8; durations are 10 ms to 24 h. What is out of
  // range is refused before any I/O.

  /// Takes the lease, unless somebody holds it: also when that is the same owner.
  ///
  /// Made again by itself when the connection breaks, it finds what it had got.
  [[nodiscard]] std::optional<Lease> try_acquire(std::string_view name, std::string_view owner,
                                                 std::chrono::milliseconds duration,
                                                 const std::stop_token& stop = {});

  /// Takes one of `limit` (1 to 10,000) slots, unless so many are held. These have nothing to do
  /// with the lease of the same name. An owner may hold several.
  [[nodiscard]] std::optional<Lease> try_acquire_slot(std::string_view name, int limit,
                                                      std::string_view owner,
                                                      std::chrono::milliseconds duration,
                                                      const std::stop_token& stop = {});

  /// Lets it end `duration` from now, or when it would have, if that is later. Answers the time;
  /// nothing when it is not held any more.
  std::optional<WallTime> renew(const Lease& lease, std::chrono::milliseconds duration,
                                const std::stop_token& stop = {});

  /// Answers whether it was still held.
  bool release(const Lease& lease, const std::stop_token& stop = {});

  /// Who holds it; nothing when nobody does.
  [[nodiscard]] std::optional<Lease> get(std::string_view name);

  /// All that are held, slots included, in the order of their names.
  [[nodiscard]] std::vector<Lease> list(const LeasePage& page = {});

  /// Deletes what is left of leases that ran out longer ago than `age`; answers how many. A started
  /// Platform does it.
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
  std::string owner{};  ///< Empty: this host and process, and something random.
  std::chrono::milliseconds duration{
      30'000};  ///< 100 ms to 24 h: how long a dead holder keeps others waiting.
  /// After which share of the duration it renews, at the latest: 0.1 to 0.8. A random tenth of the
  /// duration sooner, so that many do not come at once.
  double renew_at = 0.6;
  int limit = 0;           ///< From 1: takes one of so many slots. Zero: the one and only.
  std::stop_token stop{};  ///< Fires the runner's stop_token() as well.
};

/// Holds a lease, and renews it in the background until it is destroyed; then it gives it back.
class LeaseRunner {
 public:
  /// Nothing when somebody else holds it. `leases` must outlive the runner.
  [[nodiscard]] static std::optional<LeaseRunner> try_start(Leases& leases, std::string_view name,
                                                            const LeaseRunnerOptions& options = {});

  LeaseRunner(LeaseRunner&&) noexcept;
  LeaseRunner& operator=(LeaseRunner&&) noexcept;
  /// Fires stop_token(), and gives the lease back; when the database does not take it within some
  /// seconds, it ends by itself. Not from a callback of the runner's own stop_token().
  ~LeaseRunner();

  /// As it was granted.
  [[nodiscard]] const Lease& lease() const;
  [[nodiscard]] std::int64_t token() const { return lease().token; }

  /// Fires when the lease is lost, or could not be confirmed until a moment before it ends.
  [[nodiscard]] std::stop_token stop_token() const;
  [[nodiscard]] bool is_lost() const;
  void throw_if_lost() const;

  /// Renews now; false when that was refused, or the database gave no answer. After a success the
  /// next automatic renewal is due `renew_at` of the duration later; after a failure it stays where
  /// it was.
  bool try_renew_now();

 private:
  struct State;
  explicit LeaseRunner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Calls `lead` whenever this process becomes the leader of `name`, until `options.stop`. Returns
/// true when `lead` has returned by itself; when it returned because leadership was lost
/// (runner.stop_token()), it stands for election again. What `lead` throws ends it too.
bool run_while_leader(Leases& leases, std::string_view name,
                      const std::function<void(LeaseRunner& runner)>& lead,
                      const LeaseRunnerOptions& options = {});

}  // namespace dovetail
