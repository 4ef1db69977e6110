#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "core/host.hpp"
#include "core/owner_process.hpp"
#include "core/random.hpp"
#include "dovetail/error.hpp"
#include "dovetail/ids.hpp"
#include "dovetail/lease.hpp"

namespace dovetail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shortest_attempt{250};
constexpr milliseconds release_patience{2'000};
constexpr double jitter = 0.1;  // share of the duration; renewals only become earlier

/// A lease counts as lost this long before it expires. The margin exceeds the drift between two
/// clocks during a lease.
MonoDuration margin(milliseconds duration) {
  return std::min<MonoDuration>(duration / 10,
                                std::max<milliseconds>(milliseconds{1'000}, duration / 500));
}

MonoDuration share_of(milliseconds duration, double share) {
  return std::chrono::duration_cast<MonoDuration>(duration * share);
}

std::string default_owner() {
  return core::host_name() + "/" + std::to_string(::getpid()) + "/" + Uuid::random().to_string();
}

void require_options(const LeaseRunnerOptions& options) {
  if (options.duration < milliseconds{100} || options.duration > std::chrono::hours{24}) {
    throw std::out_of_range("duration must be 100 ms to 24 h");
  }
  if (!(options.renew_at >= 0.1 && options.renew_at <= 0.8))
    throw std::out_of_range("renew_at must be 0.1 to 0.8");
  if (options.limit < 0) throw std::out_of_range("limit must not be negative");
}

}  // namespace

// There are two threads. One renews the lease, and may wait for the database. The other fires the
// stop token in time, even while the first one waits. All times are of the monotonic clock. The
// expiry is computed from the time of the request, which is before the grant of the database. It
// only moves later, so both threads may sleep until the expiry that they know, and then check
// again.
//
// Time limits of single database calls are limits of I/O: they use the clock of the system.
struct LeaseRunner::State {
  State(Leases& leases_, Lease granted, const LeaseRunnerOptions& options, MonoTime sent_at)
      : leases(leases_),
        clock(leases_.clock()),
        lease(std::move(granted)),
        duration(options.duration),
        renew_at(options.renew_at),
        ends(sent_at + options.duration),
        outer(options.stop, [this] { source.request_stop(); }),
        renewer([this](const std::stop_token& stop) { keep(stop); }),
        watcher([this](const std::stop_token& stop) { watch(stop); }) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() {
    watcher.request_stop();
    renewer.request_stop();
    over.request_stop();
    watcher.join();
    renewer.join();
    source.request_stop();  // for users who kept the token
    try {
      const std::jthread hurry([this](const std::stop_token& done) {
        if (system_clock()->sleep_for(release_patience, done)) releasing.request_stop();
      });
      leases.release(lease, releasing.get_token());
    } catch (const std::exception& error) {  // the lease expires by itself
      leases.note_failure("lease.release_failed", lease, error.what());
    }
  }

  /// Throws InvalidOperation in a forked child, which has none of the threads.
  void require_process() const {
    process.require(
        "this LeaseRunner was started before fork(): the lease belongs to the parent process");
  }

  /// The time at which the lease counts as lost. The caller holds the mutex.
  [[nodiscard]] MonoTime lost_at() const { return ends - margin(duration); }

  bool check() {
    {
      std::lock_guard lock(mutex);
      lost = lost || clock.mono() >= lost_at();
      if (!lost) return false;
    }
    tell();
    return true;
  }

  void lose() {
    {
      std::lock_guard lock(mutex);
      lost = true;
    }
    tell();
  }

  /// The caller must not hold the mutex: this runs callbacks of users.
  void tell() {
    over.request_stop();  // cancels a running renewal
    if (!told.exchange(true)) leases.note_lost(lease);
    source.request_stop();
  }

  /// Returns false when the lease is lost. Throws when the database gave no answer.
  bool renew() {
    const auto sent_at = clock.mono();
    // An attempt on a half-open connection gets no answer. It must leave time for another attempt.
    std::stop_source attempt;
    const std::stop_callback ends_with_us(over.get_token(), [&] { attempt.request_stop(); });
    const std::jthread hurry([&](const std::stop_token& done) {
      if (system_clock()->sleep_for(std::max<milliseconds>(duration / 8, shortest_attempt), done))
        attempt.request_stop();
    });
    if (!leases.renew(lease, duration, attempt.get_token())) {
      lose();
      return false;
    }
    if (check()) return false;  // the answer came too late
    std::lock_guard lock(mutex);
    ends = std::max(ends, sent_at + duration);
    return true;
  }

  /// Sleeps until the renewal is due. A call of try_renew_now() meanwhile postpones it. Returns
  /// false when there are no more renewals.
  bool sleep_until_due(const std::stop_token& stop) {
    const auto sooner = share_of(duration, jitter * core::random_unit());
    for (;;) {
      MonoTime at;
      {
        std::lock_guard lock(mutex);
        if (lost) return false;
        at = ends - share_of(duration, 1 - renew_at) - sooner;
      }
      if (clock.mono() >= at) return true;
      if (!clock.sleep_until(at, stop)) return false;
    }
  }

  void keep(const std::stop_token& stop) {
    while (sleep_until_due(stop)) {
      try {
        if (!renew()) return;
      } catch (const std::exception& error) {
        if (!stop.stop_requested())
          leases.note_failure("lease.renewal_failed", lease, error.what());
        const auto pause =
            std::clamp<milliseconds>(duration / 20, milliseconds{10}, milliseconds{1'000});
        if (!clock.sleep_for(pause, stop)) return;
      }
      if (check()) return;
    }
  }

  void watch(const std::stop_token& stop) {
    while (!check()) {
      MonoTime at;
      {
        std::lock_guard lock(mutex);
        at = lost_at();
      }
      if (!clock.sleep_until(at, stop)) return;
    }
  }

  const core::OwnerProcess process;
  Leases& leases;
  Clock& clock;
  const Lease lease;
  const milliseconds duration;
  const double renew_at;
  std::mutex mutex;
  MonoTime ends;      // the expiry; not later than in the database
  bool lost = false;  // never reset
  std::atomic<bool> told{false};
  std::stop_source source;     // for users: lost, stopped by the caller, or destroyed
  std::stop_source over;       // ends renewals
  std::stop_source releasing;  // ends the release
  std::stop_callback<std::function<void()>> outer;
  std::jthread renewer;
  std::jthread watcher;
};

std::optional<LeaseRunner> LeaseRunner::try_start(Leases& leases, std::string_view name,
                                                  const LeaseRunnerOptions& options) {
  require_options(options);
  const auto owner = options.owner.empty() ? default_owner() : options.owner;
  const auto sent_at = leases.clock().mono();
  auto lease = options.limit > 0 ? leases.try_acquire_slot(name, options.limit, owner,
                                                           options.duration, options.stop)
                                 : leases.try_acquire(name, owner, options.duration, options.stop);
  if (!lease) return std::nullopt;
  try {
    return LeaseRunner{std::make_unique<State>(leases, *lease, options, sent_at)};
  } catch (...) {  // the threads could not be started
    leases.release(*lease);
    throw;
  }
}

LeaseRunner::LeaseRunner(std::unique_ptr<State> state) : state_(std::move(state)) {}
LeaseRunner::LeaseRunner(LeaseRunner&&) noexcept = default;
LeaseRunner& LeaseRunner::operator=(LeaseRunner&& other) noexcept {
  if (this != &other) {
    const LeaseRunner ends_here(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
LeaseRunner::~LeaseRunner() {
  // A forked child has none of the threads, and the lease belongs to the parent.
  if (state_ && !state_->process.is_current_process()) {
    [[maybe_unused]] const auto* leaked = state_.release();
  }
}

const Lease& LeaseRunner::lease() const {
  return state_->lease;
}

std::stop_token LeaseRunner::stop_token() const {
  state_->require_process();
  return state_->source.get_token();
}

bool LeaseRunner::is_lost() const {
  state_->require_process();
  return state_->check();
}

void LeaseRunner::throw_if_lost() const {
  if (is_lost()) {
    throw LostLease("the lease " + lease().name + " with token " + std::to_string(lease().token) +
                    " is lost");
  }
}

bool LeaseRunner::try_renew_now() {
  if (is_lost()) return false;
  try {
    return state_->renew();
  } catch (const std::exception& error) {
    state_->leases.note_failure("lease.renewal_failed", state_->lease, error.what());
    return false;
  }
}

bool run_while_leader(Leases& leases, std::string_view name,
                      const std::function<void(LeaseRunner&)>& lead,
                      const LeaseRunnerOptions& options) {
  require_options(options);
  if (!lead) throw std::invalid_argument("lead must not be empty");
  auto own = options;
  if (own.owner.empty()) own.owner = default_owner();
  while (!own.stop.stop_requested()) {
    std::optional<LeaseRunner> runner;
    try {
      runner = LeaseRunner::try_start(leases, name, own);
    } catch (const Error& error) {
      // Without the database there is no leader. The database may return, so try again.
      const bool passes =
          error.is_transient() || error.is_in_doubt() || error.kind() == ErrorKind::cancelled;
      if (!passes) throw;
    }
    if (runner) {
      lead(*runner);
      if (!runner->is_lost() && !own.stop.stop_requested()) return true;
      runner.reset();
    }
    // Candidates try often, so that one soon replaces a leader. The random part spreads their
    // attempts.
    const auto pause = share_of(own.duration, 0.1 + 0.1 * core::random_unit());
    leases.clock().sleep_for(std::min<MonoDuration>(pause, std::chrono::seconds{2}), own.stop);
  }
  return false;
}

}  // namespace dovetail
