#include "history/component.hpp"

#include "storage/portions.hpp"
#include "storage/queue_names.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::history {
namespace {

constexpr std::chrono::seconds flush_interval{10};
constexpr std::chrono::minutes fold_interval{1};
constexpr std::chrono::hours fine_kept{1};
constexpr std::chrono::hours minutes_kept{24 * 7};
constexpr std::chrono::hours sources_kept{24};
constexpr int calm_intervals = 6;  // so many make a minute

struct QueueBacklog {
  std::string_view queue;
  BacklogBucket bucket;
};

std::vector<QueueBacklog> backlogs_in(storage::Database& database, storage::ReadSession& session) {
  namespace names = storage::queue_names;
  std::vector<QueueBacklog> found;
  for (const auto queue : {names::outbox, names::inbox, names::timers}) {
    const auto counts =
        database.queue(queue).operations.counts(session, BacklogBucket::most_counted);
    found.push_back({queue, {.ready = counts.ready, .in_progress = counts.in_progress}});
  }
  return found;
}

std::chrono::microseconds age_of(MonoTime time, MonoTime now) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::max(now - time, MonoDuration{}));
}

}  // namespace

Component::Component(const component::Environment& environment)
    : history(environment.database),
      database_(environment.database),
      backlog_(environment.database.store<storage::BacklogStore>()),
      store_(environment.database.store<storage::RollupStore>()) {}

std::vector<component::Chore> Component::chores() {
  std::vector<component::Chore> chores{
      {"history.fold", [this](const std::stop_token& stop) { fold(stop); }, fold_interval},
      {"history.purge", [this](const std::stop_token& stop) { purge(stop); }, fold_interval}};
  if (collector_) {
    collector_->open();
    chores.push_back(
        {"history.flush", [this](const std::stop_token& stop) { flush(stop); }, flush_interval});
    chores.push_back({"history.backlog",
                      [this](const std::stop_token& stop) { sample_backlog(stop); },
                      flush_interval});
  }
  return chores;
}

void Component::flush(const std::stop_token& stop) {
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) {
    pending_ = collector_->take();
    if (pending_.empty()) return;
    is_active_ = true;
    ++number_;
  }
  const auto now = database_.clock().mono();
  storage::RollupFlush flush{.source = source_, .number = number_};
  for (const auto& each : pending_) {
    flush.rows.push_back(
        {.queue = each.queue, .age = age_of(each.begin, now), .counts = each.counts});
  }
  database_.write({.repeatable = true, .service = true, .stop = stop},
                  [&](storage::WriteSession& session) { store_.flush(session, flush); });
  pending_.clear();
}

void Component::sample_backlog(const std::stop_token& stop) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_active_ && ++calm_intervals_ < calm_intervals) return;
    is_active_ = false;
    calm_intervals_ = 0;
  }
  std::vector<QueueBacklog> found;
  database_.read(
      [&](storage::ReadSession& session) {
        found.clear();
        if (!backlog_.is_known(session)) found = backlogs_in(database_, session);
      },
      {.service = true, .stop = stop});
  if (found.empty()) return;
  database_.write({.repeatable = true, .service = true, .stop = stop},
                  [&](storage::WriteSession& session) {
                    for (const auto& [queue, bucket] : found) backlog_.add(session, queue, bucket);
                  });
  const std::lock_guard lock(mutex_);
  for (const auto& [queue, bucket] : found)
    is_active_ = is_active_ || bucket.ready + bucket.in_progress > 0;
}

void Component::fold(const std::stop_token& stop) {
  std::size_t folded = 1;
  while (folded > 0 && !stop.stop_requested()) {
    database_.write({.service = true, .stop = stop}, [&](storage::WriteSession& session) {
      folded = store_.fold(session, fine_kept) + backlog_.fold(session, fine_kept);
    });
    if (folded > 0 && database_.transactions_exclude_writers() &&
        !storage::pause_between_portions({}, stop)) {
      return;
    }
  }
}

void Component::purge(const std::stop_token& stop) {
  storage::in_portions(
      database_,
      [&](storage::WriteSession& session, int most) {
        return store_.purge(session, minutes_kept, most);
      },
      stop);
  storage::in_portions(
      database_,
      [&](storage::WriteSession& session, int most) {
        return backlog_.purge(session, minutes_kept, most);
      },
      stop);
  storage::in_portions(
      database_,
      [&](storage::WriteSession& session, int most) {
        return store_.purge_sources(session, sources_kept, most);
      },
      stop);
}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::history
