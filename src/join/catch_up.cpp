#include "join/catch_up.hpp"

#include "dovetail/error.hpp"
#include "storage/join_store.hpp"
#include "storage/portions.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::join {
namespace {

constexpr std::chrono::milliseconds look_interval{1'000};
/// A message that was noted as waiting is stored within this time.
constexpr std::chrono::seconds commits_within{10};

}  // namespace

void CatchUp::start() {
  if (!database_.store<storage::JoinStore>().may_lag()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void CatchUp::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

component::ServiceHealth CatchUp::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

void CatchUp::note_waiting() {
  {
    const std::lock_guard lock(mutex_);
    look_until_ = database_.clock().mono() + commits_within;
  }
  wakes_.notify_all();
}

void CatchUp::run(const std::stop_token& stop) {
  bool waiting = true;  // perhaps from before this process started
  while (!stop.stop_requested()) {
    if (!waiting) {
      std::unique_lock lock(mutex_);
      wakes_.wait(lock, stop, [this] { return look_until_ > database_.clock().mono(); });
    }
    if (!database_.clock().sleep_for(look_interval, stop)) return;
    try {
      waiting = catch_up(stop);
      const std::lock_guard lock(mutex_);
      health_ = {.running = true};
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      waiting =
          known == nullptr || known->kind() != ErrorKind::schema;  // somebody has removed the joins
      if (!waiting || stop.stop_requested()) continue;
      log_.write(LogLevel::warn, "join.catch_up_failed",
                 {{"store", database_.name()}, {"error", error.what()}});
      const std::lock_guard lock(mutex_);
      ++health_.failures;
      health_.last_error = error.what();
    }
  }
}

bool CatchUp::catch_up(const std::stop_token& stop) {
  storage::CaughtUp answer{.handled = storage::portion, .waiting = false};
  while (answer.handled >= storage::portion && !stop.stop_requested()) {
    database_.write({.single_statement = true, .service = true, .stop = stop},
                    [&](storage::WriteSession& session) {
                      answer =
                          database_.store<storage::JoinStore>().catch_up(session, storage::portion);
                      if (answer.handled > 0) session.wakes(storage::queue_names::outbox);
                    });
    if (answer.handled == 0) break;
    metrics_.count("join.caught_up", answer.handled, {{"store", database_.name()}});
  }
  return answer.waiting;
}

void CatchUp::log_ended(const std::stop_token& stop) {
  std::vector<Join> ended;
  do {
    database_.write({.service = true, .stop = stop}, [&](storage::WriteSession& session) {
      ended = database_.store<storage::JoinStore>().take_unlogged(session, storage::portion);
    });
    for (const auto& join : ended) {
      log_.write(LogLevel::info, "join.ended",
                 {{"store", database_.name()},
                  {"join_id", join.id.to_string()},
                  {"status", to_string(join.status)},
                  {"expected_steps", join.expected_steps},
                  {"completed_steps", join.completed_steps},
                  {"failed_steps", join.failed_steps}});
    }
  } while (ended.size() == storage::portion && !stop.stop_requested());
}

void CatchUp::run_once(const std::stop_token& stop) {
  if (database_.store<storage::JoinStore>().may_lag()) catch_up(stop);
  log_ended(stop);
}

}  // namespace dovetail::join
