#include "join/catch_up.hpp"

#include <utility>

#include "dovetail/error.hpp"
#include "storage/join_store.hpp"
#include "storage/portions.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::join {
namespace {

constexpr std::chrono::milliseconds look_interval{1'000};
/// All uncounted steps of this time cause one check.
constexpr std::chrono::milliseconds least_pause{100};
/// After note_waiting(), the transaction of the waiting message commits within this time.
constexpr std::chrono::seconds commits_within{10};

}  // namespace

component::ServiceHealth CatchUp::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

void CatchUp::tell(std::function<void(MonoTime at)> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void CatchUp::note_waiting() {
  const std::lock_guard lock(mutex_);
  const auto now = database_.clock().mono();
  look_until_ = now + commits_within;
  if (wake_) wake_(now + look_interval);
}

void CatchUp::note_uncounted() {
  const std::lock_guard lock(mutex_);
  uncounted_ = true;
  if (wake_) wake_(database_.clock().mono() + least_pause);
}

MonoTime CatchUp::step(const std::stop_token& stop) {
  if (!database_.store<storage::JoinStore>().needs_catch_up()) return MonoTime::max();
  const auto expects_more = [this] {
    const std::lock_guard lock(mutex_);
    return look_until_ > database_.clock().mono();
  };
  const auto is_uncounted = [this] {
    const std::lock_guard lock(mutex_);
    return std::exchange(uncounted_, false);
  };
  if (is_uncounted() || waiting_ || expects_more()) {
    try {
      waiting_ = catch_up(stop);
      const std::lock_guard lock(mutex_);
      health_ = {.running = true};
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      // A schema error means that the tables of joins were removed. Then no message waits.
      waiting_ = known == nullptr || known->kind() != ErrorKind::schema;
      if (waiting_ && !stop.stop_requested()) note_failure(error);
    }
  }
  return waiting_ || expects_more() ? database_.clock().mono() + look_interval : MonoTime::max();
}

void CatchUp::note_failure(const std::exception& error) {
  log_.write(LogLevel::warn, "join.catch_up_failed",
             {{"store", database_.name()}, {"error", error.what()}});
  const std::lock_guard lock(mutex_);
  ++health_.failures;
  health_.last_error = error.what();
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
    metrics_.count("dovetail_joins_caught_up_total", answer.handled, {{"store", database_.name()}});
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
  if (database_.store<storage::JoinStore>().needs_catch_up()) catch_up(stop);
  log_ended(stop);
}

}  // namespace dovetail::join
