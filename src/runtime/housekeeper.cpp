#include "runtime/housekeeper.hpp"

#include <algorithm>
#include <utility>

#include "core/random.hpp"
#include "dovetail/error.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds longest_interval{30'000};
constexpr milliseconds shortest_interval{1'000};
/// A chore may take at most one part in this many of the time.
constexpr int time_share = 50;
/// But each chore runs at least this often.
constexpr milliseconds longest_chore_pause{60'000};
constexpr int reaper_looks_at = 10'000;
constexpr int unpark_portion = 1'000;

/// Completes a resume that was interrupted, or that was started with plain SQL.
void unpark(storage::Database& database, const WorkQueue& queue, storage::QueueConsumer& consumer,
            const std::stop_token& stop) {
  std::size_t back = unpark_portion;
  while (back == unpark_portion && !stop.stop_requested()) {
    database.write({.single_statement = true, .service = true, .stop = stop},
                   [&](storage::WriteSession& session) {
                     back = consumer.unpark(session, std::nullopt, unpark_portion);
                     if (back > 0) session.wakes(queue.name());
                   });
  }
}

}  // namespace

std::vector<component::Chore> queue_chores(storage::Database& database,
                                           const component::Queue& queue) {
  auto* const work = queue.queue;
  auto* const consumer = queue.consumer;
  return {{work->name() + ".reap",
           [work](const std::stop_token& stop) {
             work->reap_expired({.look_at = reaper_looks_at, .stop = stop});
           }},
          {work->name() + ".purge",
           [work](const std::stop_token& stop) {
             const auto age = work->options().retain_done;
             if (age.count() > 0) work->purge_done(age, stop);
           }},
          {work->name() + ".unpark", [&database, work, consumer](const std::stop_token& stop) {
             unpark(database, *work, *consumer, stop);
           }}};
}

Housekeeper::Housekeeper(storage::Database& database, std::vector<component::Chore> chores,
                         milliseconds interval, Logger log, Metrics metrics)
    : SteppedService(database.clock()),
      database_(database),
      interval_(std::clamp(interval, shortest_interval, longest_interval)),
      log_(std::move(log)),
      metrics_(std::move(metrics)) {
  for (auto& chore : chores) entries_.push_back({.chore = std::move(chore)});
}

component::ServiceHealth Housekeeper::health() const {
  const std::lock_guard lock(mutex_);
  const auto worst = std::ranges::max_element(entries_, {}, &Entry::failures);
  if (worst == entries_.end()) return {.running = is_running()};
  return {.running = is_running(), .failures = worst->failures, .last_error = worst->last_error};
}

/// Runs only one chore, so that a caller with other work does not wait long.
MonoTime Housekeeper::step(const std::stop_token& stop) {
  if (entries_.empty()) return MonoTime::max();
  if (!std::exchange(begun_, true)) {
    const auto first = clock().mono() + pause_after({});  // processes start at random times
    for (auto& entry : entries_) entry.due = first;
  }
  const auto earliest = [this] { return std::ranges::min_element(entries_, {}, &Entry::due); };
  const auto next = earliest();
  const auto begun = clock().mono();
  if (next->due > begun) return next->due;
  do_chore(*next, stop);
  const auto ended = clock().mono();
  next->due = ended + pause_after(ended - begun);
  return earliest()->due;
}

MonoDuration Housekeeper::pause_after(MonoDuration took) const {
  const auto usual = std::chrono::duration_cast<MonoDuration>(interval_.load() *
                                                              (0.75 + 0.5 * core::random_unit()));
  return std::max(usual, std::min<MonoDuration>(took * time_share, longest_chore_pause));
}

void Housekeeper::do_chore(Entry& entry, const std::stop_token& stop) {
  try {
    entry.chore.run(stop);
    const std::lock_guard lock(mutex_);
    entry.failures = 0;
  } catch (const std::exception& error) {
    if (!stop.stop_requested()) note_failure(entry, error);
  }
}

void Housekeeper::note_failure(Entry& entry, const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  // The tables of the component were removed. The other components continue without it.
  if (known != nullptr && known->kind() == ErrorKind::schema) return;
  metrics_.count("platform.chore_failed", 1,
                 {{"store", database_.name()}, {"chore", entry.chore.name}});
  log_.write(LogLevel::error, "platform.chore_failed",
             {{"store", database_.name()}, {"chore", entry.chore.name}, {"error", error.what()}});
  const std::lock_guard lock(mutex_);
  ++entry.failures;
  entry.last_error = error.what();
}

}  // namespace dovetail::runtime
