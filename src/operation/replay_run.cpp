#include "operation/replay_run.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "core/text.hpp"
#include "dovetail/audit.hpp"
#include "storage/operation_store.hpp"
#include "storage/portions.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::operation {
namespace {

constexpr int letters_per_page = 500;
constexpr std::size_t letters_per_transaction = 500;
constexpr std::size_t letters_per_transaction_of_one_writer = 50;
constexpr std::size_t longest_failure = 2'048;

class ReplayRun {
 public:
  ReplayRun(storage::Database& database, const Replay& replay, const std::stop_token& stop)
      : database_(database),
        store_(database.store<storage::ReplayStore>()),
        operations_(database.queue(replay.request.queue).operations),
        replay_(replay),
        stop_(stop),
        filter_(replay.request.filter) {
    const auto& rate = replay.request.rate;
    step_ = database.transactions_exclude_writers() ? letters_per_transaction_of_one_writer
                                                    : letters_per_transaction;
    if (rate) step_ = std::min(step_, static_cast<std::size_t>(*rate));
    // Messages that fail again during the replay are left out.
    const auto end = replay.started_at + std::chrono::microseconds{1};
    filter_.failed_before = std::min(end, filter_.failed_before.value_or(end));
  }

  ReplayState run() {
    DeadLetterPage page{.size = letters_per_page};
    while (!stop_.stop_requested()) {
      std::vector<StoredMessage> letters;
      database_.read(
          [&](storage::ReadSession& session) {
            letters = operations_.dead_letters(session, filter_, page);
          },
          {.stop = stop_});
      if (letters.empty()) return ReplayState::done;
      page.after = letters.back().message.id;
      if (!take(letters)) return ended_;
    }
    return ReplayState::interrupted;
  }

 private:
  /// Returns false when the replay has ended; `ended_` says how.
  bool take(const std::vector<StoredMessage>& letters) {
    std::vector<MessageId> ids;
    for (const auto& each : letters) {
      if (is_selected(replay_.request, each)) ids.push_back(each.message.id);
    }
    if (ids.empty()) return change({}, static_cast<std::int64_t>(letters.size()));
    auto rest = std::span<const MessageId>{ids};
    auto examined = static_cast<std::int64_t>(letters.size());
    while (!rest.empty()) {
      const auto some = rest.first(std::min({rest.size(), step_, left()}));
      if (!change(some, std::exchange(examined, 0))) return false;
      if (left() == 0) return end(ReplayState::done);
      rest = rest.subspan(some.size());
    }
    return true;
  }

  /// One transaction: changes dead letters and counts them.
  bool change(std::span<const MessageId> ids, std::int64_t examined) {
    if (stop_.stop_requested()) return end(ReplayState::interrupted);
    bool runs = true;
    std::size_t count = 0;
    MonoDuration took{};
    database_.write({.stop = stop_}, [&](storage::WriteSession& session) {
      const auto begun = std::chrono::steady_clock::now();
      count = 0;
      runs = store_.advance(session, replay_.id, {.examined = examined});
      if (!runs || ids.empty()) return;
      count = change_letters(session, ids);
      if (count > 0)
        store_.advance(session, replay_.id, {.changed = static_cast<std::int64_t>(count)});
      took = std::chrono::steady_clock::now() - begun;
    });
    if (!runs) return end(ReplayState::cancelled);
    changed_ += static_cast<std::int64_t>(count);
    pause(count, took);
    return true;
  }

  std::size_t change_letters(storage::WriteSession& session, std::span<const MessageId> ids) {
    const auto most = static_cast<int>(ids.size());
    if (replay_.request.kind == ReplayKind::purge)
      return operations_.purge_failed(session, ids, {}, most);
    const auto count = operations_.replay(session, ids, {}, most);
    if (count > 0) session.wakes(replay_.request.queue);
    return count;
  }

  void pause(std::size_t count, MonoDuration took) {
    if (replay_.request.rate && count > 0) {
      const std::chrono::duration<double> time{static_cast<double>(count) / *replay_.request.rate};
      database_.clock().sleep_for(std::chrono::duration_cast<std::chrono::milliseconds>(time),
                                  stop_);
    } else if (database_.transactions_exclude_writers()) {
      storage::pause_between_portions(took, stop_);
    }
  }

  [[nodiscard]] std::size_t left() const {
    if (!replay_.request.limit) return letters_per_transaction;
    return static_cast<std::size_t>(std::max<std::int64_t>(*replay_.request.limit - changed_, 0));
  }

  bool end(ReplayState state) {
    ended_ = state;
    return false;
  }

  storage::Database& database_;
  storage::ReplayStore& store_;
  storage::QueueOperator& operations_;
  const Replay& replay_;
  const std::stop_token& stop_;
  DeadLetterFilter filter_;
  std::size_t step_ = letters_per_transaction;
  std::int64_t changed_ = 0;
  ReplayState ended_ = ReplayState::done;
};

/// Stores the end. A database that does not answer leaves the replay as running, and a minute later
/// it counts as interrupted.
void store_end(storage::Database& database, const Replay& replay, ReplayState state,
               std::string_view failure) {
  if (state == ReplayState::cancelled) return;  // stored by whoever cancelled it
  database.write({.single_statement = true, .once = state == ReplayState::interrupted},
                 [&](storage::WriteSession& session) {
                   database.store<storage::ReplayStore>().finish(session, replay.id, state,
                                                                 failure);
                 });
}

/// The start of a replay is in the audit without its result, which is known now.
void record_end(storage::Database& database, const Replay& replay, ReplayState state,
                const std::string& failure) {
  std::int64_t changed = 0;
  database.read([&](storage::ReadSession& session) {
    const auto found = database.store<storage::ReplayStore>().find(session, replay.id);
    if (found) changed = found->changed;
  });
  AuditRecord record{
      .actor = replay.request.actor,
      .action = "dead_letters." + std::string{to_string(replay.request.kind)} + "_ended",
      .target = replay.request.queue,
      .detail = R"({"replay_id":")" + replay.id.to_string() + R"("})",
      .count = changed,
      .result = std::string{state == ReplayState::done ? "ok" : to_string(state)}};
  if (!failure.empty()) record.result += ": " + failure;
  Audit{database}.record(record);
}

}  // namespace

bool is_selected(const ReplayRequest& request, const StoredMessage& letter) {
  return !request.error || letter.last_error == request.error;
}

void run_replay(storage::Database& database, const Logger& log, const Replay& replay,
                const std::stop_token& stop) {
  auto state = ReplayState::failed;
  std::string failure;
  try {
    state = ReplayRun{database, replay, stop}.run();
  } catch (const std::exception& error) {
    if (stop.stop_requested()) state = ReplayState::interrupted;
    failure = core::trimmed(core::printable(error.what()), longest_failure);
  }
  try {
    store_end(database, replay, state, failure);
    if (state != ReplayState::interrupted) record_end(database, replay, state, failure);
  } catch (const std::exception& error) {
    if (failure.empty()) failure = error.what();
  }
  log.write(state == ReplayState::failed ? LogLevel::warn : LogLevel::info, "replay.ended",
            {{"store", database.name()},
             {"replay", replay.id.to_string()},
             {"kind", to_string(replay.request.kind)},
             {"queue", replay.request.queue},
             {"state", to_string(state)},
             {"error", failure}});
}

}  // namespace dovetail::operation
