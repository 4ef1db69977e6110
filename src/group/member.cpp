#include "group/member.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/error.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::group {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shortest_interval{500};
/// The time between the first two polls of a database. Opening many databases is enough load.
constexpr milliseconds first_interval{4'000};
/// The time that an idle database keeps its dispatchers.
constexpr milliseconds linger{5'000};
/// The same, if a glance found work that this process could not claim.
constexpr milliseconds short_linger{1'000};
constexpr milliseconds check_interval{1'000};
constexpr milliseconds leave_interval{20};
constexpr milliseconds heartbeat{40'000};
/// The additional delay of services while there is no work. An instance is stale after 90 s.
constexpr milliseconds services_wait{30'000};
constexpr milliseconds unhandled_look{300'000};
constexpr milliseconds idle_chores{600'000};
constexpr milliseconds busy_chores{30'000};
/// The time limit of a call while other databases wait for its connection.
constexpr milliseconds contended_limit{1'000};

/// A part of the interval. The rest is for connecting and claiming, so that work is picked up
/// within the interval.
MonoDuration spread(MonoDuration interval) {
  return std::chrono::duration_cast<MonoDuration>(interval * (0.75 + 0.2 * core::random_unit()));
}

}  // namespace

/// Rings when this process, or another one that the listener hears, has stored new work.
struct Member::Bells {
  Bells(storage::Database& database, bool subscribes, const std::function<void()>& ring)
      : outbox(database.bell(storage::queue_names::outbox), ring),
        inbox(database.bell(storage::queue_names::inbox), ring),
        timers(database.bell(storage::queue_names::timers), ring),
        jobs(database.bell(storage::queue_names::jobs), ring) {
    if (!subscribes) return;
    events.emplace(database.bell(storage::queue_names::events), ring);
    event_feed.emplace(database.bell(storage::queue_names::event_feed), ring);
  }

  storage::Doorbell::Subscription outbox;
  storage::Doorbell::Subscription inbox;
  storage::Doorbell::Subscription timers;
  storage::Doorbell::Subscription jobs;
  std::optional<storage::Doorbell::Subscription> events;
  std::optional<storage::Doorbell::Subscription> event_feed;
};

Member::Member(const GroupContext& group, DatabaseEntry entry, std::size_t place)
    : group_(group),
      entry_(std::move(entry)),
      uuid_(Uuid::parse(entry_.key)),
      place_(place),
      account_(std::make_shared<storage::ConnectionBudget::Account>()),
      interval_(shortest_interval) {}

Member::~Member() {
  end();
}

std::shared_ptr<runtime::Node> Member::node() const {
  const std::lock_guard lock(mutex_);
  return node_;
}

std::shared_ptr<Work> Member::work() const {
  const std::lock_guard lock(mutex_);
  return work_;
}

GroupDatabaseStatus Member::status() const {
  const std::lock_guard lock(mutex_);
  GroupDatabaseStatus status{.key = entry_.key, .failures = failures_, .last_error = last_error_};
  if (work_ && failures_ == 0) {
    const auto health = work_->health();
    status.failures = health.failures;
    if (health.failures > 0) status.last_error = health.last_error;
  }
  using State = GroupDatabaseState;
  status.state = leaving_              ? State::leaving
                 : status.failures > 0 ? State::failing
                 : work_               ? State::working
                 : node_               ? State::idle
                                       : State::closed;
  return status;
}

// --- steps

void Member::start(const GroupThreads& threads) {
  threads_.emplace(threads);
  const std::lock_guard lock(mutex_);
  task_ = group_.maintenance.add([this](const std::stop_token& stop) { return step(stop); }, now(),
                                 [this](const Agenda::LongStep& step) { return is_over(step); });
}

void Member::leave(bool is_last) {
  leave_since_ = now();
  leaving_ = true;
  if (!task_ || is_last) {
    left_ = true;
    return;
  }
  group_.maintenance.wake_by(task_, now());
}

MonoTime Member::step(const std::stop_token& stop) {
  try {
    if (leaving_) return leave_step();
    return maintain(stop);
  } catch (const TryLater& later) {
    return now() + spread(later.wait);
  } catch (const storage::ProbeUnavailable& error) {
    return note_no_probe(error);
  } catch (const std::exception& error) {
    return note_failure(stop.stop_requested()
                            ? "the call took too long: " + std::string{error.what()}
                            : std::string{error.what()});
  }
}

MonoTime Member::maintain(const std::stop_token& stop) {
  if (!services_) begin_services(opened(stop), stop);
  const auto services_due = services_->run_due(group_.clock, stop);
  const auto next = work() ? check_working_database(stop) : check_idle_database(stop);
  note_success();
  if (work()) return std::min(next, services_due);
  node()->database().close_idle();
  // The services of an idle database wait for the next poll, which opens a connection.
  return std::min(next, std::max<MonoTime>(services_due, now()) > MonoTime::max() - services_wait
                            ? MonoTime::max()
                            : services_due + services_wait);
}

MonoTime Member::check_idle_database(const std::stop_token& stop) {
  if (rung_.exchange(false)) {
    woken_by_glance_ = false;
    wake_up();
    return now() + check_interval;
  }
  if (now() >= next_glance_) {
    const auto due = glance(stop);
    woken_by_glance_ = due && *due <= MonoDuration{};
    interval_ = std::min<MonoDuration>(interval_, group_.options.max_poll_interval);
    next_glance_ = now() + std::min(spread(interval_), due.value_or(interval_));
    interval_ *= 2;
    if (woken_by_glance_) wake_up();
  }
  return woken_by_glance_ ? now() + short_linger : next_glance_;
}

void Member::begin_services(runtime::Node& node, const std::stop_token& stop) {
  register_handlers(node, stop);
  for (const auto& component : node.components()) component->check_start(stop);
  const auto wake = [this](MonoTime at) { group_.maintenance.wake_by(task_, at); };
  services_ = std::make_unique<StepList>(wake);
  auto instance = runtime::make_instance(node, *handlers_,
                                         {.heartbeat = heartbeat, .look_interval = unhandled_look});
  auto housekeeper = std::make_unique<runtime::Housekeeper>(
      node.database(), node.chores(), node.options().worker.lease, node.logger(), node.metrics());
  housekeeper->set_interval(idle_chores);
  instance_ = instance.get();
  housekeeper_ = housekeeper.get();
  services_->add(std::move(instance));
  services_->add(std::move(housekeeper));
  const auto ring = [this] {
    rung_ = true;
    group_.maintenance.wake_by(task_, now());
  };
  rung_ = !group_.subscriptions.close().empty();  // new subscriptions are created
  bells_ = std::make_unique<Bells>(node.database(), rung_, ring);
  next_glance_ = now();  // while a connection is open
  interval_ = first_interval;
}

/// Returns the time until there is work for this process, as far as one query can tell.
std::optional<MonoDuration> Member::glance(const std::stop_token& stop) {
  auto& database = node()->database();
  storage::Glance seen;
  database.read(
      [&](storage::ReadSession& session) {
        seen = database.store<storage::GlanceStore>().look(session, topics_);
      },
      {.service = true, .stop = stop});
  if (group_.inbox_handlers.empty()) seen.inbox.reset();
  if (!node()->options().schedule.fire_timers) seen.timers.reset();
  if (group_.subscriptions.close().empty()) seen.events.reset();
  events_wait_ = seen.events.has_value();
  std::optional<MonoDuration> earliest;
  for (const auto& due : {seen.outbox, seen.inbox, seen.timers, seen.jobs, seen.events}) {
    if (!due) continue;
    const auto in = std::chrono::duration_cast<MonoDuration>(std::clamp<std::chrono::microseconds>(
        *due, std::chrono::microseconds{0}, std::chrono::hours{1}));
    earliest = std::min(earliest.value_or(in), in);
  }
  return earliest;
}

// --- work

void Member::wake_up() {
  auto& node = *this->node();
  if (stopping_) return;
  group_.listeners.acquire(node.listener());
  housekeeper_->set_interval(busy_chores);
  const auto is_over = [this](const Agenda::LongStep& step) { return this->is_over(step); };
  auto work =
      std::make_shared<Work>(*threads_, node, *handlers_, Work::Place{entry_.key, place_, is_over});
  work_task_ = group_.maintenance.add(
      [this](const std::stop_token& stop) { return work_services_->run_due(group_.clock, stop); },
      MonoTime::max(), is_over);
  work_services_ = std::make_unique<StepList>(
      [this](MonoTime at) { group_.maintenance.wake_by(work_task_, at); });
  for (auto& service : node.component_services()) {
    if (dynamic_cast<component::SteppedService*>(service.get()) == nullptr) {
      throw std::logic_error("the service " + service->name() + " does not work in steps");
    }
    work_services_->add(std::unique_ptr<component::SteppedService>(
        static_cast<component::SteppedService*>(service.release())));
  }
  group_.maintenance.wake_by(work_task_, now());
  work->start();
  const std::lock_guard lock(mutex_);
  work_ = std::move(work);
  if (stopping_) work_->request_stop();
}

MonoTime Member::check_working_database(const std::stop_token& stop) {
  const auto work = this->work();
  group_.listeners.acquire(node()->listener());
  if (rung_.exchange(false)) work->expect_message();
  if (!work->has_looked() && work->health().failures == 0) return now() + check_interval;
  const auto patience = woken_by_glance_ && !work->has_claimed() ? short_linger : linger;
  const auto idle_since = work->last_claim();
  if (!work->is_idle() || now() - idle_since < patience) return now() + check_interval;
  const auto due = glance(stop);
  const bool comes_soon = due && *due > MonoDuration{} && *due < patience;
  if (comes_soon || events_wait_ || !work->try_pause()) return now() + check_interval;
  sleep();
  return rung_ ? now() : next_glance_;
}

void Member::sleep() {
  if (work()->has_claimed()) interval_ = shortest_interval;
  end_work();
  auto& node = *this->node();
  housekeeper_->set_interval(idle_chores);
  group_.listeners.mark_idle(node.listener());
  node.database().close_idle();
  interval_ = std::min<MonoDuration>(interval_, group_.options.max_poll_interval);
  next_glance_ = now() + spread(interval_);
  interval_ *= 2;
  woken_by_glance_ = false;
}

void Member::end_work() {
  std::shared_ptr<Work> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(work_);
  }
  if (work_task_) group_.maintenance.remove(work_task_);
  work_services_.reset();
  work_task_ = {};
}

// --- failures

bool Member::is_over(const Agenda::LongStep& step) const {
  using Contention = storage::ConnectionBudget::Contention;
  if (migrates_) return false;
  if (step.took >= step.limit) return true;
  // Other databases wait for the connections of this one. It may be slow without hanging: after
  // each call that was cut off, the next call gets twice the time. A step also waits for its own
  // connection: that time does not count.
  const auto contention = group_.budget->contention(*account_);
  if (contention == Contention::none) return false;
  const int doublings = contention == Contention::connects ? 2 : 10;
  const MonoDuration unanswered = std::chrono::steady_clock::now() - account_->served_at();
  return std::min(step.took, unanswered) >=
         contended_limit * (1 << std::min(step.previous_stops, doublings));
}

MonoTime Member::after_failures(int failures) const {
  const ExponentialBackoff backoff{
      .initial = milliseconds{1'000}, .cap = group_.options.max_poll_interval, .jitter = 0.5};
  return now() + backoff.delay(std::min(failures, 20), core::random_unit());
}

/// The database was not called. The previous error says why it fails.
MonoTime Member::note_no_probe(const storage::ProbeUnavailable& error) {
  int failures = 0;
  {
    const std::lock_guard lock(mutex_);
    failures = failures_;
  }
  return failures > 0 ? after_failures(failures) : note_failure(error.what());
}

MonoTime Member::note_failure(const std::string& error) {
  if (stopping_) return MonoTime::max();
  group_.metrics.count("dovetail_group_database_failed_total", 1, {{"store", entry_.key}});
  bool news = false;
  int failures = 0;
  {
    const std::lock_guard lock(mutex_);
    news = failures_ == 0 || last_error_ != error;
    failures = failures_++;
    last_error_ = error;
  }
  if (news) {
    group_.log.write(LogLevel::warn, "group.database_failed",
                     {{"store", entry_.key}, {"error", error}});
  }
  return after_failures(failures);
}

void Member::note_success() {
  {
    const std::lock_guard lock(mutex_);
    if (failures_ == 0) return;
    failures_ = 0;
    last_error_.clear();
  }
  group_.log.write(LogLevel::info, "group.database_recovered", {{"store", entry_.key}});
}

// --- the end

MonoTime Member::leave_step() {
  if (const auto work = this->work()) {
    work->request_stop();
    // Once the leases have expired, the results of handlers cannot be stored any more.
    const auto lease = group_.options.database.worker.lease;
    const bool too_late = work->is_drained() && now() - leave_since_.load() > lease;
    if (!work->is_idle() && !too_late) return now() + leave_interval;
  }
  end_work();
  finish(now() + check_interval);
  left_ = true;
  return MonoTime::max();
}

void Member::request_stop() {
  stopping_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (being_opened_ != nullptr) being_opened_->cancel_calls();
  }
  if (const auto work = this->work()) work->request_stop();
}

bool Member::stop(MonoTime deadline) {
  const auto work = this->work();
  return !work || work->stop(deadline);
}

void Member::finish(MonoTime give_up_at) {
  if (const auto work = this->work()) work->finish(give_up_at);
  const auto node = this->node();
  if (!node || !services_) return;
  bool failing = false;
  {
    const std::lock_guard lock(mutex_);
    failing = failures_ > 0;
  }
  if (!failing && now() < give_up_at) {
    instance_->leave_now();
  }
  bells_.reset();
  services_.reset();
  group_.listeners.remove(node->listener());
  node->database().close_idle();
}

void Member::cancel_calls() {
  if (const auto node = this->node()) node->database().cancel_calls();
}

void Member::end() {
  if (task_) group_.maintenance.remove(task_);
  end_work();
  bells_.reset();
  services_.reset();
  if (const auto node = this->node()) group_.listeners.remove(node->listener());
}

}  // namespace dovetail::group
