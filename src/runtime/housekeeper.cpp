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
constexpr int reaper_scan_limit = 10'000;
/// Messages of workers that died wait for the reaper.
constexpr milliseconds longest_reap_pause{5'000};
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
             work->reap_expired({.scan_limit = reaper_scan_limit, .stop = stop});
           },
           std::nullopt, longest_reap_pause},
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
  for (auto& chore : chores) {
    entries_.push_back({.chore = std::move(chore)});
    entries_.back().health.name = entries_.back().chore.name;
  }
}

component::ServiceHealth Housekeeper::health() const {
  const std::lock_guard lock(mutex_);
  const auto failures = [](const Entry& entry) { return entry.health.failures; };
  const auto worst = std::ranges::max_element(entries_, {}, failures);
  if (worst == entries_.end()) return {.running = is_running()};
  return {.running = is_running(),
          .failures = worst->health.failures,
          .last_error = worst->health.last_error};
}

std::vector<ChoreHealth> Housekeeper::chores() const {
  const std::lock_guard lock(mutex_);
  std::vector<ChoreHealth> all;
  for (const auto& entry : entries_) all.push_back(entry.health);
  return all;
}

/// Runs only one chore, so that a caller with other work does not wait long.
MonoTime Housekeeper::step(const std::stop_token& stop) {
  if (entries_.empty()) return MonoTime::max();
  if (!std::exchange(begun_, true)) {
    // Processes start at random times. No chore waits for a long interval of its own: a process
    // that is often started would never do it.
    const auto first = clock().mono() + usual_pause({});
    for (auto& entry : entries_) entry.due = first;
  }
  const auto earliest = [this] { return std::ranges::min_element(entries_, {}, &Entry::due); };
  const auto next = earliest();
  const auto begun = clock().mono();
  if (next->due > begun) return next->due;
  do_chore(*next, stop);
  const auto ended = clock().mono();
  next->due = ended + pause_after(*next, ended - begun);
  return earliest()->due;
}

MonoDuration Housekeeper::usual_pause(const component::Chore& chore) const {
  const auto interval =
      chore.interval ? std::max(*chore.interval, least_interval_.load()) : interval_.load();
  return std::chrono::duration_cast<MonoDuration>(interval * (0.75 + 0.5 * core::random_unit()));
}

/// The shorter time of the last two runs counts: one run may have waited for a lock, or for a
/// frozen server.
MonoDuration Housekeeper::pause_after(Entry& entry, MonoDuration took) const {
  const auto cost = std::min(took, std::exchange(entry.took, took));
  return std::max(usual_pause(entry.chore),
                  std::min<MonoDuration>(cost * time_share, entry.chore.longest_pause));
}

void Housekeeper::do_chore(Entry& entry, const std::stop_token& stop) {
  try {
    entry.chore.run(stop);
    note_success(entry);
  } catch (const std::exception& error) {
    if (!stop.stop_requested()) note_failure(entry, error);
  }
}

void Housekeeper::note_success(Entry& entry) {
  const std::lock_guard lock(mutex_);
  entry.schema_logged = false;
  auto& health = entry.health;
  health.last_success = clock().wall();
  // Only chores that have failed have a gauge: a group has the chores of many databases.
  if (std::exchange(health.failures, 0) > 0) report_failures(health);
}

void Housekeeper::note_failure(Entry& entry, const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  // A schema error lasts until somebody repairs the schema: one line is enough.
  const bool is_schema = known != nullptr && known->kind() == ErrorKind::schema;
  const std::lock_guard lock(mutex_);
  auto& health = entry.health;
  ++health.failures;
  health.last_error = error.what();
  metrics_.count("dovetail_chore_failed_total", 1,
                 {{"store", database_.name()}, {"chore", entry.chore.name}});
  report_failures(health);
  if (is_schema && std::exchange(entry.schema_logged, true)) return;
  log_.write(LogLevel::error, "platform.chore_failed",
             {{"store", database_.name()},
              {"chore", entry.chore.name},
              {"error", error.what()},
              {"failures", health.failures},
              {"last_success", health.last_success ? to_string(*health.last_success) : "never"}});
}

void Housekeeper::report_failures(const ChoreHealth& health) const {
  metrics_.gauge("dovetail_chore_failures", health.failures,
                 {{"store", database_.name()}, {"chore", health.name}});
}

}  // namespace dovetail::runtime
