#include "runtime/dispatcher.hpp"

#include <algorithm>
#include <array>

#include "core/assert.hpp"
#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/error.hpp"

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

/// How long a finished message may wait for others, to be settled with them in one round trip.
constexpr milliseconds settle_delay{1};
/// Claims start where the last one did; this often at least they start at the queue's beginning.
constexpr milliseconds scan_interval{1'000};
/// A scan from the start may take this part of the time: with a long row of dead entries it becomes rarer.
constexpr int scan_share = 20;
constexpr milliseconds housekeeping_interval{30'000};
/// Waiting for a handler that is at its limit; more of them go back into the queue for a while.
constexpr std::size_t blocked_batches = 4;
constexpr milliseconds blocked_delay{1'000};

void require(bool good, const char* message) {
  if (!good) throw std::out_of_range(message);
}

int thread_count(int asked) {
  if (asked > 0) return asked;
  return std::max(4, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

Dispatcher::Dispatcher(storage::Database& database, Outbox& outbox, HandlerRegistry& handlers,
                       WorkerOptions options, Logger log, Metrics metrics)
    : database_(database),
      outbox_(outbox),
      handlers_(handlers),
      options_(options),
      threads_(thread_count(options.threads)),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      scope_{database, owner_, outbox.options().retain_done.count() > 0, log_, metrics_} {
  require(options_.threads >= 0 && options_.threads <= 1'000, "threads must be 0 (as many as fit) to 1000");
  require(options_.batch_size >= 1 && options_.batch_size <= 10'000, "batch_size must be 1 to 10000");
  require(options_.lease >= milliseconds{100} && options_.lease <= std::chrono::hours{24},
          "lease must be 100 ms to 24 h");
  require(options_.poll_interval >= milliseconds{1} && options_.poll_interval <= std::chrono::hours{1},
          "poll_interval must be 1 ms to 1 h");
  require(options_.idle_poll_interval >= options_.poll_interval &&
              options_.idle_poll_interval <= std::chrono::hours{1},
          "idle_poll_interval must be poll_interval to 1 h");
}

Dispatcher::~Dispatcher() {
  stop(milliseconds{0});
  workers_.clear();  // joins
}

void Dispatcher::start() {
  bell_.emplace(database_.doorbell(), [this] {
    std::lock_guard lock(mutex_);
    rung_ = true;
    fetcher_wakes_.notify_one();
  });
  fetcher_ = std::jthread([this] { fetch(); });
  const auto serve = [this](auto member) {
    services_.emplace_back([this, member](const std::stop_token& stop) { (this->*member)(stop); });
  };
  serve(&Dispatcher::renew);
  serve(&Dispatcher::keep_time);
  serve(&Dispatcher::keep_house);
  services_.emplace_back([this](const std::stop_token& stop) {
    try {
      database_.listen(stop, [this](bool hears) { hears_others_ = hears; });
    } catch (const std::exception& error) {
      log_error("outbox.listener_failed", error);
    }
    hears_others_ = false;
  });
  std::lock_guard lock(mutex_);
  for (int i = 0; i < threads_; ++i) add_worker();
}

bool Dispatcher::stop(milliseconds deadline) {
  const auto give_up_at = Steady::now() + deadline;
  std::unique_lock lock(mutex_);
  if (!stopping_) {
    stopping_ = true;
    log_.write(LogLevel::info, "outbox.stopping",
               {{"store", database_.name()}, {"running", running_total_}, {"waiting", waiting_.size()}});
  }
  std::vector<JobPtr> told;
  for (const auto& job : std::exchange(waiting_, {})) {
    jobs_.erase(job->claimed.claim.id);
    settle_later({.kind = Kind::snooze, .claim = job->claimed.claim});
  }
  for (const auto& [id, job] : jobs_) {
    job->shutting_down = true;
    told.push_back(job);
  }
  lock.unlock();
  for (const auto& job : told) job->stop.request_stop();
  lock.lock();
  fetcher_wakes_.notify_all();
  const bool drained = job_ended_.wait_until(lock, give_up_at, [this] { return running_total_ == 0; });
  // The fetcher settles what is left and ends; it has at least a moment for that.
  closed_ = true;
  fetcher_wakes_.notify_all();
  worker_wakes_.notify_all();
  lock.unlock();
  if (fetcher_.joinable()) {
    std::mutex late;
    std::condition_variable_any never;
    std::jthread hurry([&](const std::stop_token& done) {
      std::unique_lock wait(late);
      const auto at = std::max(give_up_at, Steady::now() + milliseconds{500});
      never.wait_until(wait, done, at, [] { return false; });
      if (!done.stop_requested()) hurry_.request_stop();
    });
    fetcher_.join();
  }
  bell_.reset();
  hurry_.request_stop();
  for (auto& service : services_) service.request_stop();
  services_.clear();
  if (drained) workers_.clear();
  return drained;
}

// --- the fetcher
// ---------------------------------------------------------------------------------------------

void Dispatcher::fetch() {
  for (Trip trip; next_trip(trip); trip = {}) {
    if (travel(trip)) continue;
    if (hurry_.stop_requested()) return;
  }
}

/// How many messages of those that wait have a handler that may take them now.
std::size_t Dispatcher::startable() const {
  std::unordered_map<const RegisteredHandler*, int> room;
  std::size_t count = 0;
  for (const auto& job : waiting_) {
    const auto limit = job->handler->options.concurrency;
    if (limit == 0) {
      ++count;
      continue;
    }
    const auto busy = running_.find(job->handler);
    auto [left, fresh] = room.try_emplace(job->handler, limit - (busy == running_.end() ? 0 : busy->second));
    if (left->second-- > 0) ++count;
  }
  return count;
}

/// Waits until there is a reason for a round trip; answers false when there will be none any more.
bool Dispatcher::next_trip(Trip& trip) {
  std::unique_lock lock(mutex_);
  const auto batch = static_cast<std::size_t>(options_.batch_size);
  for (;;) {
    const auto now = Steady::now();
    const auto ready = startable();
    const bool failing = now < retry_at_;
    const bool wants = !stopping_ && ready < (batch + 1) / 2 && waiting_.size() < blocked_batches * batch;
    const bool claims = wants && (rung_ || more_ || now >= poll_at_);
    const bool settles = !finished_.empty() && (ready == 0 || finished_.size() >= batch || stopping_ ||
                                                now >= *first_finished_ + settle_delay);
    if (!failing && (claims || settles)) {
      trip.settlements = std::exchange(finished_, {});
      first_finished_.reset();
      if (claims) {
        trip.wanted = static_cast<int>(batch - std::min(batch - 1, ready));
        const bool by_the_clock = !rung_ && !more_;
        trip.from_start =
            scan_next_ || scan_is_due(now, by_the_clock ? MonoDuration{} : MonoDuration{scan_interval});
        rung_ = false;
      }
      return true;
    }
    if (closed_ && (!failing || hurry_.stop_requested())) return false;
    auto wake = now + (closed_ ? MonoDuration{milliseconds{50}} : MonoDuration{std::chrono::hours{1}});
    if (failing) wake = std::min(wake, retry_at_);
    if (!failing && wants) wake = std::min(wake, poll_at_);
    if (!failing && !finished_.empty()) wake = std::min(wake, *first_finished_ + settle_delay);
    fetcher_wakes_.wait_until(lock, wake);
  }
}

/// One round trip. What it could not settle is kept for the next.
bool Dispatcher::travel(Trip& trip) {
  const auto sent_at = Steady::now();
  const storage::ClaimOrder order{.owner = owner_,
                                  .batch_size = trip.wanted,
                                  .lease = options_.lease,
                                  .max_attempts = handlers_.most_attempts(),
                                  .after = trip.from_start || !has_marks_ ? nullptr : &marks_};
  // In the order of their ids, as everybody locks them.
  std::ranges::sort(trip.settlements, {}, [](const storage::Settlement& each) { return each.claim.id; });
  storage::WorkAnswer answer;
  try {
    database_.write({.single_statement = true, .stop = hurry_.get_token()},
                    [&](storage::WriteSession& session) {
                      answer = database_.outbox().work(session, owner_, trip.settlements, scope_.keep_done,
                                                       trip.wanted > 0 ? &order : nullptr);
                    });
  } catch (const std::exception& error) {
    log_error("outbox.round_trip_failed", error);
    put_back(trip);
    return false;
  }
  failures_ = 0;
  const auto lost = trip.settlements.size() - std::min(answer.settled, trip.settlements.size());
  metrics_.time("outbox.round_trip", Steady::now() - sent_at, {{"store", database_.name()}});
  metrics_.count("outbox.settled", answer.settled, {{"store", database_.name()}});
  metrics_.count("outbox.claimed", answer.claimed.size(), {{"store", database_.name()}});
  metrics_.count("outbox.lease_lost", lost, {{"store", database_.name()}});
  if (lost > 0) {
    log_.write(LogLevel::warn, "outbox.lease_lost", {{"store", database_.name()}, {"count", lost}});
  }
  if (trip.wanted == 0) return true;
  if (log_.enabled(LogLevel::debug)) {
    log_.write(
        LogLevel::debug, "outbox.claimed",
        {{"store", database_.name()}, {"owner", owner_.to_string()}, {"count", answer.claimed.size()}});
  }
  note_place(answer.claimed);
  take_in(answer.claimed, sent_at);
  plan_next(trip, answer.claimed.size(), sent_at);
  return true;
}

void Dispatcher::put_back(Trip& trip) {
  std::lock_guard lock(mutex_);
  const auto pause =
      ExponentialBackoff{.initial = milliseconds{50}, .cap = milliseconds{5'000}, .jitter = 0.5}.delay(
          failures_++, core::random_unit());
  retry_at_ = Steady::now() + pause;
  std::ranges::move(trip.settlements, std::back_inserter(finished_));
  if (!finished_.empty() && !first_finished_) first_finished_ = Steady::now();
  if (trip.wanted > 0) rung_ = true;
}

void Dispatcher::take_in(const std::vector<storage::ClaimedEntry>& entries, MonoTime sent_at) {
  std::vector<JobPtr> jobs;
  Settlements unfit;
  for (const auto& entry : entries) {
    const auto& message = entry.claimed.message;
    const auto* handler = handlers_.find(message.topic);
    if (handler == nullptr) {
      log_.write(LogLevel::warn, "outbox.unknown_topic",
                 {{"store", database_.name()},
                  {"topic", message.topic},
                  {"message_id", message.message_id.to_string()}});
      metrics_.count("outbox.unknown_topic", 1, {{"store", database_.name()}});
      const RegisteredHandler nobody{{}, {}, handlers_.default_attempts()};
      unfit.push_back(failed_try(nobody, entry.claimed.claim, message.attempts, "no handler for this topic"));
    } else if (message.attempts >= handler->max_attempts) {
      unfit.push_back({.kind = Kind::fail,
                       .claim = entry.claimed.claim,
                       .error = "its lease ran out, and with it its last attempt"});
    } else {
      auto job = std::make_shared<Job>();
      job->claimed = entry.claimed;
      job->handler = handler;
      job->lease_end = sent_at + options_.lease;
      jobs.push_back(std::move(job));
    }
  }
  std::lock_guard lock(mutex_);
  for (auto& settlement : unfit) settle_later(std::move(settlement));
  for (auto& job : jobs) {
    if (stopping_) {
      settle_later({.kind = Kind::snooze, .claim = job->claimed.claim});
      continue;
    }
    auto& held = jobs_[job->claimed.claim.id];
    if (held && !held->given_up) {
      // We lost its lease, and our handler has not noticed yet: never two at once.
      settle_later({.kind = Kind::snooze, .claim = job->claimed.claim, .delay = options_.lease});
      continue;
    }
    held = job;
    waiting_.push_back(std::move(job));
  }
  // Too many that wait for handlers at their limit: out of the way of the others, for a while.
  const auto room = blocked_batches * static_cast<std::size_t>(options_.batch_size);
  while (waiting_.size() > room && startable() < waiting_.size()) {
    const auto job = waiting_.back();
    drop_unstarted(job);
    settle_later({.kind = Kind::snooze, .claim = job->claimed.claim, .delay = blocked_delay});
  }
  worker_wakes_.notify_all();
}

void Dispatcher::note_place(const std::vector<storage::ClaimedEntry>& entries) {
  std::array<bool, std::tuple_size_v<storage::QueueMarks>> seen{};
  for (const auto& entry : entries) {
    const auto lane = static_cast<std::size_t>(entry.claimed.message.priority - storage::lowest_priority);
    if (lane >= marks_.size() || seen[lane])
      continue;  // in the order of the queue: the first is the earliest
    seen[lane] = true;
    marks_[lane] = entry.ready_at;
    has_marks_ = true;
  }
}

bool Dispatcher::scan_is_due(MonoTime now, MonoDuration interval) const {
  return now - scanned_at_ >= std::max<MonoDuration>(interval, scan_cost_ * scan_share);
}

std::optional<std::chrono::microseconds> Dispatcher::next_due() {
  std::optional<std::chrono::microseconds> due;
  try {
    database_.read([&](storage::ReadSession& session) { due = database_.outbox().next_due(session); },
                   hurry_.get_token());
  } catch (const std::exception& error) {
    log_error("outbox.round_trip_failed", error);
  }
  return due;
}

/// When to claim next.
void Dispatcher::plan_next(const Trip& trip, std::size_t claimed, MonoTime sent_at) {
  const bool full = claimed >= static_cast<std::size_t>(trip.wanted);
  const auto now = Steady::now();
  if (trip.from_start) {
    scanned_at_ = now;
    scan_cost_ = now - sent_at;
    scan_next_ = false;
  } else if (!full && has_marks_ && scan_is_due(now, {})) {
    // Nothing more where we look: perhaps before it.
    scan_next_ = true;
    std::lock_guard lock(mutex_);
    more_ = true;
    return;
  }
  std::optional<std::chrono::microseconds> due;
  if (!full && claimed == 0) due = next_due();
  std::lock_guard lock(mutex_);
  more_ = full;
  if (claimed > 0) {
    idle_polls_ = 0;
  } else if (!full) {
    ++idle_polls_;
  }
  // With nothing to do and a listener that would tell us, we look less and less often.
  const auto patience = hears_others_ ? options_.idle_poll_interval : options_.poll_interval;
  auto pause =
      std::min<MonoDuration>(patience, options_.poll_interval * (1 << std::clamp(idle_polls_ - 1, 0, 10)));
  if (due) pause = std::min<MonoDuration>(pause, *due + milliseconds{1});
  poll_at_ = now + pause;
}

// --- the workers
// ---------------------------------------------------------------------------------------------

void Dispatcher::add_worker() {
  workers_.emplace_back([this] { work(); });
}

bool Dispatcher::may_start(const Job& job) const {
  const auto limit = job.handler->options.concurrency;
  if (limit == 0) return true;
  const auto busy = running_.find(job.handler);
  return busy == running_.end() || busy->second < limit;
}

/// The next message whose handler may take it; nothing when there will be none any more.
JobPtr Dispatcher::next_job() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (closed_) return nullptr;
    const auto next = std::ranges::find_if(waiting_, [this](const JobPtr& job) { return may_start(*job); });
    if (next == waiting_.end()) {
      worker_wakes_.wait(lock);
      continue;
    }
    auto job = *next;
    waiting_.erase(next);
    const auto now = Steady::now();
    if (job->lease_end - safety_margin() <= now) {  // it waited too long: others will take it
      jobs_.erase(job->claimed.claim.id);
      continue;
    }
    job->running = true;
    job->started = now;
    ++running_[job->handler];
    ++running_total_;
    auto deadline = job->lease_end - safety_margin();
    const auto timeout = job->handler->options.timeout;
    if (timeout.count() > 0) deadline = std::min<MonoTime>(deadline, now + timeout);
    if (deadline < next_deadline_) {
      next_deadline_ = deadline;
      timekeeper_wakes_.notify_one();
    }
    // The fetcher is told once, when there is room for the next batch.
    if (waiting_.size() * 2 <= static_cast<std::size_t>(options_.batch_size) && (more_ || rung_)) {
      fetcher_wakes_.notify_one();
    }
    return job;
  }
}

void Dispatcher::work() {
  while (const auto job = next_job()) finish(job, invoke(scope_, *job));
}

void Dispatcher::finish(const JobPtr& job, std::optional<storage::Settlement> settlement) {
  std::lock_guard lock(mutex_);
  --running_total_;
  if (--running_[job->handler] == 0) running_.erase(job->handler);
  if (job->given_up) --hung_;
  const auto held = jobs_.find(job->claimed.claim.id);
  if (held != jobs_.end() && held->second == job) jobs_.erase(held);
  if (settlement) settle_later(std::move(*settlement));
  if (job->handler->options.concurrency > 0) worker_wakes_.notify_one();
  job_ended_.notify_all();
}

/// Under the mutex.
void Dispatcher::settle_later(storage::Settlement settlement) {
  finished_.push_back(std::move(settlement));
  if (!first_finished_) {
    first_finished_ = Steady::now();
    fetcher_wakes_.notify_one();
  } else if (waiting_.empty() || finished_.size() >= static_cast<std::size_t>(options_.batch_size)) {
    fetcher_wakes_.notify_one();
  }
}

void Dispatcher::drop_unstarted(const JobPtr& job) {
  jobs_.erase(job->claimed.claim.id);
  std::erase(waiting_, job);
}

// --- the other threads
// ---------------------------------------------------------------------------------------

/// How long before its lease ends a message counts as lost.
MonoDuration Dispatcher::safety_margin() const {
  return std::min<MonoDuration>(options_.lease / 10, std::chrono::seconds{1});
}

std::vector<Claim> Dispatcher::claims_to_renew(MonoTime now) {
  std::vector<Claim> claims;
  std::lock_guard lock(mutex_);
  for (const auto& [id, job] : jobs_) {
    const bool is_time = job->lease_end - now <= MonoDuration{options_.lease} * 2 / 3;
    if (is_time && !job->given_up) claims.push_back(job->claimed.claim);
  }
  std::ranges::sort(claims, {}, &Claim::id);
  return claims;
}

void Dispatcher::renew(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    never.wait_for(lock, stop, options_.lease / 6, [] { return false; });
    const auto sent_at = Steady::now();
    const auto claims = claims_to_renew(sent_at);
    if (claims.empty() || stop.stop_requested()) continue;
    try {
      std::vector<OutboxWorkItemId> held;
      database_.write({.single_statement = true, .repeatable = true, .stop = hurry_.get_token()},
                      [&](storage::WriteSession& session) {
                        held = database_.outbox().renew(session, owner_, claims, options_.lease);
                      });
      metrics_.count("outbox.renewed", held.size(), {{"store", database_.name()}});
      note_renewal(claims, held, sent_at);
    } catch (const std::exception& error) {
      log_error("outbox.renewal_failed", error);
    }
  }
}

void Dispatcher::note_renewal(const std::vector<Claim>& asked, const std::vector<OutboxWorkItemId>& held,
                              MonoTime sent_at) {
  std::vector<OutboxWorkItemId> sorted(held);
  std::ranges::sort(sorted);
  std::vector<JobPtr> lost;
  {
    std::lock_guard lock(mutex_);
    for (const auto& claim : asked) {
      const auto found = jobs_.find(claim.id);
      if (found == jobs_.end() || found->second->claimed.claim != claim) continue;  // settled meanwhile
      const auto job = found->second;
      if (std::ranges::binary_search(sorted, claim.id)) {
        job->lease_end = std::max(job->lease_end, sent_at + MonoDuration{options_.lease});
      } else if (job->running) {
        job->stop_requested = true;
        lost.push_back(job);
      } else {
        drop_unstarted(job);
      }
    }
  }
  for (const auto& job : lost) {
    log_.write(LogLevel::warn, "outbox.lease_lost",
               {{"store", database_.name()},
                {"topic", job->claimed.message.topic},
                {"message_id", job->claimed.message.message_id.to_string()}});
    job->stop.request_stop();
  }
}

/// Fires what is due and answers when to look again.
MonoTime Dispatcher::fire_due_stops(MonoTime now) {
  auto next = now + std::chrono::hours{1};
  std::vector<std::pair<JobPtr, const char*>> due;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, job] : jobs_) {
      if (!job->running || job->given_up) continue;
      const auto timeout = job->handler->options.timeout;
      const auto lost_at = job->lease_end - safety_margin();
      if (!job->stop_requested) {
        if (lost_at <= now || (timeout.count() > 0 && job->started + timeout <= now)) {
          job->stop_requested = true;
          due.emplace_back(job, lost_at <= now ? "outbox.lease_ending" : "outbox.handler_timeout");
        } else {
          next = std::min(next, lost_at);
          if (timeout.count() > 0) next = std::min<MonoTime>(next, job->started + timeout);
        }
      }
      if (timeout.count() > 0) {
        // Told to stop, and still there a lease later: it hangs. Its message goes to somebody else, its
        // thread is replaced.
        const auto hangs_at = job->started + timeout + options_.lease;
        if (hangs_at <= now) {
          job->given_up = true;
          due.emplace_back(job, "outbox.handler_hangs");
          if (++hung_ <= threads_ && !closed_) add_worker();
        } else {
          next = std::min<MonoTime>(next, hangs_at);
        }
      }
    }
  }
  for (const auto& [job, event] : due) {
    log_.write(LogLevel::error, event,
               {{"store", database_.name()},
                {"topic", job->claimed.message.topic},
                {"message_id", job->claimed.message.message_id.to_string()}});
    metrics_.count(event, 1, {{"store", database_.name()}, {"topic", job->claimed.message.topic}});
    job->stop.request_stop();
  }
  return next;
}

void Dispatcher::keep_time(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto next = fire_due_stops(Steady::now());
    std::unique_lock lock(mutex_);
    next_deadline_ = std::min(next_deadline_, next);
    timekeeper_wakes_.wait_until(lock, stop, next, [&] { return next_deadline_ < next; });
    next_deadline_ = MonoTime::max();
  }
}

void Dispatcher::keep_house(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  const auto interval = std::clamp<milliseconds>(options_.lease, milliseconds{1'000}, housekeeping_interval);
  while (!stop.stop_requested()) {
    // Not all processes at the same moment.
    const auto pause =
        std::chrono::duration_cast<milliseconds>(interval * (0.75 + 0.5 * core::random_unit()));
    never.wait_for(lock, stop, pause, [] { return false; });
    if (stop.stop_requested()) return;
    try {
      outbox_.reap_expired(handlers_.most_attempts());
      if (scope_.keep_done) outbox_.purge_done(outbox_.options().retain_done, stop);
    } catch (const std::exception& error) {
      log_error("outbox.housekeeping_failed", error);
    }
  }
}

void Dispatcher::log_error(std::string_view event, const std::exception& error) const {
  log_.write(LogLevel::error, event, {{"store", database_.name()}, {"error", error.what()}});
}

}  // namespace dovetail::runtime
