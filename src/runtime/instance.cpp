#include "runtime/instance.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/host.hpp"
#include "dovetail/version.hpp"
#include "instance/unhandled.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t most_warnings = 100;  // per check; later checks report the other topics
constexpr int look_share = 50;  // a check may take at most one part in this many of the time

std::int64_t milliseconds_of(std::chrono::microseconds time) {
  return std::chrono::duration_cast<milliseconds>(time).count();
}

}  // namespace

Instance::Instance(storage::Database& database, const std::vector<InstanceQueue>& queues,
                   InstanceOptions options, Logger log, Metrics metrics)
    : SteppedService(database.clock()),
      database_(database),
      options_(options),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      entry_{.id = InstanceId::generate(),
             .host = core::host_name(),
             .pid = ::getpid(),
             .version = std::string{version()},
             .handlers = storage::handlers_json(queues),
             .started_at = std::nullopt} {}

void Instance::request_stop() {
  draining_ = true;
  wake_by(MonoTime::min());
}

Instance::~Instance() {
  Instance::stop(MonoTime{});
  SteppedService::stop(MonoTime{});
}

bool Instance::stop(MonoTime /*deadline*/) {
  leave();
  std::unique_lock lock(mutex_);
  const auto give_up_at = clock().mono() + options_.patience;
  while (begun_ && !left_ && clock().mono() < give_up_at) {
    clock().wait_until(left_changed_, lock, give_up_at);
  }
  if (begun_ && !left_) io_.request_stop();
  return true;
}

void Instance::cut_off() {
  std::stop_source call;
  {
    const std::lock_guard lock(mutex_);
    call = call_;
  }
  if (!leaving_) call.request_stop();
}

void Instance::leave() {
  leaving_ = true;
  wake_by(MonoTime::min());
}

void Instance::leave_now() {
  const auto limit = std::make_unique<std::jthread>([this](const std::stop_token& done) {
    if (clock().sleep_for(options_.patience, done)) io_.request_stop();
  });
  leaving_ = true;
  step({});
}

void Instance::subscribe() {
  const std::lock_guard lock(mutex_);
  begun_ = true;
}

void Instance::unsubscribe() {
  const std::lock_guard lock(mutex_);
  begun_ = false;
}

component::ServiceHealth Instance::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

MonoTime Instance::step(const std::stop_token& stop) {
  {
    const std::lock_guard lock(mutex_);
    call_ = {};
  }
  const std::stop_callback by_caller(stop, [this] { call_.request_stop(); });
  const std::stop_callback by_end(io_.get_token(), [this] { call_.request_stop(); });
  if (leaving_) {
    {
      const std::lock_guard lock(mutex_);
      if (left_) return MonoTime::max();  // the row is gone
    }
    remove();
    const std::lock_guard lock(mutex_);
    left_ = true;
    left_changed_.notify_all();
    return MonoTime::max();
  }
  const auto now = clock().mono();
  if (look_at_ == MonoTime::max()) look_at_ = now + options_.look_interval;
  const auto state = draining_ ? InstanceState::draining : InstanceState::running;
  if (now >= beat_at_ || state != reported_state_) {
    beat(state);
    beat_at_ = clock().mono() + options_.heartbeat;
  }
  if (now >= look_at_) {
    look();
    const auto ended = clock().mono();
    look_at_ = ended + std::max<MonoDuration>(options_.look_interval, (ended - now) * look_share);
  }
  return std::min(beat_at_, look_at_);
}

void Instance::beat(InstanceState state) {
  reported_state_ = state;
  try {
    WallTime started_at{};
    database_.write(
        {.single_statement = true, .repeatable = true, .service = true, .stop = call_.get_token()},
        [&](storage::WriteSession& session) {
          started_at = database_.store<storage::InstanceStore>().beat(session, entry_, state);
        });
    entry_.started_at = started_at;
    {
      const std::lock_guard lock(mutex_);
      health_ = {.running = true};
    }
    if (std::exchange(failing_, false)) {
      log_.write(LogLevel::info, "instance.heartbeat_recovered",
                 {{"store", database_.name()}, {"instance_id", id().to_string()}});
    }
  } catch (const std::exception& error) {
    note_failure(error);
  }
}

void Instance::note_failure(const std::exception& error) {
  metrics_.count("dovetail_heartbeat_failed_total", 1, {{"store", database_.name()}});
  {
    const std::lock_guard lock(mutex_);
    ++health_.failures;
    health_.last_error = error.what();
  }
  if (std::exchange(failing_, true)) return;
  log_.write(
      LogLevel::warn, "instance.heartbeat_failed",
      {{"store", database_.name()}, {"instance_id", id().to_string()}, {"error", error.what()}});
}

void Instance::remove() {
  // If the last heartbeat failed, a removal would fail too. The row then becomes stale.
  if (failing_ || !entry_.started_at) return;
  try {
    database_.write(
        {.single_statement = true, .repeatable = true, .service = true, .stop = call_.get_token()},
        [&](storage::WriteSession& session) {
          database_.store<storage::InstanceStore>().remove(session, id());
        });
  } catch (const std::exception& error) {
    log_.write(
        LogLevel::warn, "instance.not_removed",
        {{"store", database_.name()}, {"instance_id", id().to_string()}, {"error", error.what()}});
  }
}

// --- topics without a handler

void Instance::look() {
  const auto now = database_.clock().mono();
  std::erase_if(warned_,
                [&](const auto& each) { return now - each.second >= options_.warn_again; });
  report_unhandled(database_.queue(storage::queue_names::outbox).operations, "outbox");
  report_unhandled(database_.queue(storage::queue_names::inbox).operations, "inbox");
}

void Instance::report_unhandled(storage::QueueOperator& store, const char* queue) {
  try {
    auto topics = instance::find_unhandled(database_, store, queue, options_.unhandled,
                                           {.service = true, .stop = call_.get_token()});
    look_failures_.erase(queue);
    instance::sort_by_wait(topics);
    std::size_t warnings = 0;
    for (const auto& topic : topics) {
      metrics_.count("dovetail_topic_unhandled_total", 1,
                     {{"store", database_.name()}, {"queue", queue}, {"topic", topic.topic}});
      if (warnings < most_warnings && warn(topic)) ++warnings;
    }
  } catch (const std::exception& error) {
    if (call_.stop_requested()) return;
    metrics_.count("dovetail_topic_check_failed_total", 1,
                   {{"store", database_.name()}, {"queue", queue}});
    if (!look_failures_.insert(queue).second) return;
    log_.write(LogLevel::warn, "instance.look_failed",
               {{"store", database_.name()}, {"queue", queue}, {"error", error.what()}});
  }
}

bool Instance::warn(const UnhandledTopic& topic) {
  const auto now = database_.clock().mono();
  if (!warned_.try_emplace({topic.queue, topic.topic}, now).second) return false;
  log_.write(LogLevel::warn, topic.queue + ".topic_unhandled",
             {{"store", database_.name()},
              {"topic", topic.topic},
              {"count", topic.seen},
              {"oldest_wait_ms", milliseconds_of(topic.oldest_wait)}});
  return true;
}

}  // namespace dovetail::runtime
