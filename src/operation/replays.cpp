#include "dovetail/replay.hpp"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/require.hpp"
#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "operation/replay_run.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/operation_store.hpp"
#include "storage/portions.hpp"

namespace dovetail {
namespace {

constexpr std::size_t most_replays = 8;
constexpr int highest_rate = 100'000;
constexpr std::size_t longest_actor = 255;
constexpr std::int64_t most_previewed = 10'000;
constexpr int most_preview_pages = 100;
constexpr int preview_page = 1'000;
constexpr std::size_t preview_ids = 20;
constexpr std::chrono::hours longest_replay_age{24 * 3650};

void require_replay(const ReplayRequest& request) {
  const auto& filter = request.filter;
  if (filter.topic && filter.topic->empty())
    throw std::invalid_argument("topic must not be empty: leave it out to select all topics");
  if (filter.topic) core::require_length("topic", *filter.topic, 255);
  if (request.error) core::require_text("error", *request.error);
  if (filter.failed_after) core::require_time("failed_after", *filter.failed_after);
  if (filter.failed_before) core::require_time("failed_before", *filter.failed_before);
  if (request.limit && *request.limit < 1)
    throw std::out_of_range("limit must be at least 1, got " + std::to_string(*request.limit));
  if (request.rate && (*request.rate < 1 || *request.rate > highest_rate)) {
    throw std::out_of_range("rate must be 1 to " + std::to_string(highest_rate) + ", got " +
                            std::to_string(*request.rate));
  }
}

}  // namespace

std::string_view to_string(ReplayKind kind) {
  return kind == ReplayKind::replay ? "replay" : "purge";
}

std::string_view to_string(ReplayState state) {
  switch (state) {
    case ReplayState::running:
      return "running";
    case ReplayState::done:
      return "done";
    case ReplayState::cancelled:
      return "cancelled";
    case ReplayState::failed:
      return "failed";
    case ReplayState::interrupted:
      return "interrupted";
  }
  return "unknown";
}

class Replays::Runs {
 public:
  Runs(storage::Database& its_database, Logger log)
      : database(its_database),
        store(its_database.store<storage::ReplayStore>()),
        log_(std::move(log)) {}

  void start(Replay replay) {
    const std::scoped_lock lock{mutex_};
    auto& run = running_.emplace_back();
    run.thread =
        std::jthread([this, &run, replay = std::move(replay)](const std::stop_token& stop) {
          operation::run_replay(database, log_, replay, stop);
          run.ended = true;
        });
  }

  void require_room() {
    const std::scoped_lock lock{mutex_};
    running_.remove_if([](const Run& run) { return run.ended.load(); });
    if (running_.size() >= most_replays) {
      throw InvalidOperation(std::to_string(most_replays) +
                             " replays of this process run already: wait for one of them, or "
                             "cancel it");
    }
  }

  storage::Database& database;
  storage::ReplayStore& store;

 private:
  struct Run {
    std::atomic<bool> ended{false};
    std::jthread thread;  // last: the thread uses `ended`
  };

  Logger log_;
  std::mutex mutex_;
  std::list<Run> running_;
};

Replays::Replays(storage::Database& database, Logger log)
    : runs_(std::make_unique<Runs>(database, std::move(log))) {}
Replays::~Replays() = default;

Replay Replays::start(const ReplayRequest& request) {
  require_replay(request);
  (void)runs_->database.queue(request.queue);
  runs_->require_room();
  Replay replay{.id = ReplayId::generate(), .request = request};
  replay.request.actor = core::trimmed(core::printable(request.actor), longest_actor);
  storage::confirmed_write(
      runs_->database, {.single_statement = true},
      [&](storage::WriteSession& session, const storage::Attempt& attempt) {
        if (attempt.after_doubt && runs_->store.advance(session, replay.id, {})) return true;
        replay.started_at = runs_->store.add(session, replay.id, replay.request);
        return true;
      });
  replay.updated_at = replay.started_at;
  runs_->start(replay);
  return replay;
}

ReplayPreview Replays::preview(const ReplayRequest& request) {
  require_replay(request);
  auto& operations = runs_->database.queue(request.queue).operations;
  const auto most = std::min(request.limit.value_or(most_previewed), most_previewed);
  ReplayPreview preview;
  DeadLetterPage page{.size = preview_page};
  for (int pages = 0; pages < most_preview_pages; ++pages) {
    std::vector<StoredMessage> letters;
    runs_->database.read([&](storage::ReadSession& session) {
      letters = operations.dead_letters(session, request.filter, page);
    });
    for (const auto& each : letters) {
      if (!operation::is_selected(request, each)) continue;
      if (preview.count == most) {
        preview.cut = most == most_previewed;
        return preview;
      }
      ++preview.count;
      if (preview.first.size() < preview_ids) preview.first.push_back(each.message.id);
    }
    if (letters.size() < static_cast<std::size_t>(preview_page)) return preview;
    page.after = letters.back().message.id;
  }
  preview.cut = true;
  return preview;
}

bool Replays::cancel(ReplayId id) {
  return storage::confirmed_write(
      runs_->database, {.single_statement = true}, [&](storage::WriteSession& session) {
        return runs_->store.finish(session, id, ReplayState::cancelled, {});
      });
}

std::optional<Replay> Replays::find(ReplayId id) {
  std::optional<Replay> found;
  runs_->database.read(
      [&](storage::ReadSession& session) { found = runs_->store.find(session, id); });
  return found;
}

std::vector<Replay> Replays::list(const ReplayPage& page) {
  core::require_batch_size("size", page.size);
  std::vector<Replay> found;
  runs_->database.read(
      [&](storage::ReadSession& session) { found = runs_->store.list(session, page); });
  return found;
}

std::size_t Replays::purge(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > longest_replay_age)
    throw std::out_of_range("age must be zero to ten years");
  return storage::in_portions(
      runs_->database,
      [&](storage::WriteSession& session) {
        return runs_->store.purge(session, age, storage::portion);
      },
      stop);
}

}  // namespace dovetail
