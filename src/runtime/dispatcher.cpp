#include "runtime/dispatcher.hpp"

#include <algorithm>

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

/// How long the settlements of a stopped dispatcher may take, whatever the deadline was.
constexpr milliseconds least_settling_time{500};
/// The same for those of handlers that outlived the deadline.
constexpr milliseconds late_patience{1'000};

void require(bool good, const char* message) {
  if (!good) throw std::out_of_range(message);
}

}  // namespace

Dispatcher::Dispatcher(storage::Database& database, storage::QueueConsumer& store, WorkQueue& queue,
                       HandlerRegistry& handlers, WorkerOptions options, Listener& listener,
                       std::vector<Chore> chores, Logger log, Metrics metrics)
    : database_(database),
      store_(store),
      queue_(queue),
      handlers_(handlers),
      options_(options),
      listener_(listener),
      chores_(std::move(chores)),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      scope_{database, store,   queue.name() + ".", owner_, queue.options().retain_done.count() > 0,
             log_,     metrics_},
      subscriptions_(subscriptions_of(handlers, options_.unknown_topics)) {
  require(options_.threads >= 1 && options_.threads <= 1'000,
          "threads must be 0 (as many as fit) to 1000");
  require(options_.batch_size >= 1 && options_.batch_size <= 10'000,
          "batch_size must be 1 to 10000");
  require(options_.fetchers >= 1 && options_.fetchers <= 32, "fetchers must be 1 to 32");
  require(options_.lease >= milliseconds{100} && options_.lease <= std::chrono::hours{24},
          "lease must be 100 ms to 24 h");
  require(
      options_.poll_interval >= milliseconds{1} && options_.poll_interval <= std::chrono::hours{1},
      "poll_interval must be 1 ms to 1 h");
  require(options_.idle_poll_interval >= options_.poll_interval &&
              options_.idle_poll_interval <= std::chrono::hours{1},
          "idle_poll_interval must be poll_interval to 1 h");
  require(options_.max_bytes >= 1024 && options_.max_bytes <= std::size_t{1} << 40,
          "max_bytes must be 1 KiB to 1 TiB");
}

Dispatcher::~Dispatcher() {
  stop(milliseconds{0});
  workers_.clear();  // joins
  settle_the_late(Steady::now() + late_patience);
}

void Dispatcher::start() {
  bell_.emplace(database_.doorbell(), [this] {
    std::lock_guard lock(mutex_);
    for (auto& subscription : subscriptions_) subscription.ring();
    fetcher_wakes_.notify_one();
  });
  hearing_.emplace(listener_, [this] {
    std::lock_guard lock(mutex_);
    const auto soon = Steady::now() + options_.poll_interval;
    for (auto& subscription : subscriptions_) subscription.look_by(soon);
    fetcher_wakes_.notify_one();
  });
  {
    std::lock_guard lock(mutex_);
    for (int i = 0; i < options_.threads; ++i) add_worker();
  }
  const int fetchers = database_.transactions_exclude_writers() ? 1 : options_.fetchers;
  for (int i = 0; i < fetchers; ++i) fetchers_.emplace_back([this] { fetch(); });
  const auto serve = [this](auto member) {
    services_.emplace_back([this, member](const std::stop_token& stop) { (this->*member)(stop); });
  };
  serve(&Dispatcher::renew);
  serve(&Dispatcher::keep_time);
  serve(&Dispatcher::keep_house);
}

bool Dispatcher::stop(milliseconds deadline) {
  const std::lock_guard one_at_a_time(stop_mutex_);
  const auto give_up_at = Steady::now() + std::clamp(deadline, milliseconds{0}, longest_wait);
  std::vector<JobPtr> told;
  std::size_t running = 0;
  std::size_t waiting = 0;
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = !std::exchange(stopping_, true) && !fetchers_.empty();
    running = running_total_;
    waiting = waiting_.size();
    give_back_waiting();
    for (const auto& [id, job] : jobs_) {
      job->shutting_down = true;
      told.push_back(job);
    }
    fetcher_wakes_.notify_all();
  }
  if (first) {
    log_.write(LogLevel::info, event("stopping"),
               {{"store", database_.name()}, {"running", running}, {"waiting", waiting}});
  }
  for (const auto& job : told) job->stop.request_stop();
  bool drained = false;
  {
    std::unique_lock lock(mutex_);
    drained = job_ended_.wait_until(lock, give_up_at, [this] { return running_total_ == 0; });
    closed_ = true;
    fetcher_wakes_.notify_all();
    worker_wakes_.notify_all();
  }
  for (auto& service : services_) service.request_stop();
  // The fetchers settle what is left and end; they have at least a moment for that.
  const auto settle_until = std::max<MonoTime>(give_up_at, Steady::now() + least_settling_time);
  const bool settled = join_fetchers(settle_until);
  bell_.reset();
  hearing_.reset();
  hurry_.request_stop();
  services_.clear();
  if (drained) {
    workers_.clear();
    if (settled) settle_the_late(settle_until);
  }
  return drained;
}

bool Dispatcher::join_fetchers(MonoTime give_up_at) {
  if (fetchers_.empty()) return true;
  std::atomic<bool> in_time{true};
  const std::jthread hurry([&](const std::stop_token& done) {
    if (!system_clock()->sleep_until(give_up_at, done)) return;
    in_time = false;
    hurry_.request_stop();
  });
  for (auto& fetcher : fetchers_) fetcher.join();
  fetchers_.clear();
  return in_time;
}

void Dispatcher::log_error(std::string_view what, const std::exception& error) const {
  log_.write(LogLevel::error, event(what), {{"store", database_.name()}, {"error", error.what()}});
}

void Dispatcher::log_job(LogLevel level, std::string_view what, const Job& job) const {
  log_.write(level, event(what),
             {{"store", database_.name()},
              {"topic", job.claimed.message.topic},
              {"message_id", job.claimed.message.message_id.to_string()}});
}

}  // namespace dovetail::runtime
