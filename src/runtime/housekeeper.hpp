// Runs the chores of all components of a node, one after the other.
//
// Each chore has its own due time and interval. A slow chore runs less often: it may take at most
// 1/50 of the time, unless its longest pause is shorter. A failed chore is logged, with the number
// of its failures and its last success, and retried at its next due time.
//
// Threads: health() and chores() from any; the rest from one thread at a time.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "component/component.hpp"
#include "component/stepped_service.hpp"

namespace dovetail::runtime {

struct ChoreHealth {
  std::string name;
  int failures = 0;          ///< Consecutive.
  std::string last_error{};  ///< Of the last failed run.
  std::optional<WallTime> last_success{};
};

class Housekeeper final : public component::SteppedService {
 public:
  Housekeeper(storage::Database& database, std::vector<component::Chore> chores,
              std::chrono::milliseconds interval, Logger log, Metrics metrics);
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;
  ~Housekeeper() override { Housekeeper::stop(MonoTime{}); }

  [[nodiscard]] std::string name() const override { return "housekeeper"; }
  [[nodiscard]] std::size_t connections() const override { return 1; }
  MonoTime step(const std::stop_token& stop) override;
  /// Sets the usual time between two runs of a chore. A chore with a longer interval of its own
  /// keeps it; a shorter one has no effect any more. Takes effect at the next run of each chore.
  void set_interval(std::chrono::milliseconds interval) {
    interval_ = interval;
    least_interval_ = interval;
  }
  /// Returns the health of the chore with the most consecutive failures.
  [[nodiscard]] component::ServiceHealth health() const override;
  /// The health of each chore, in the order of the constructor's list.
  [[nodiscard]] std::vector<ChoreHealth> chores() const;

 private:
  struct Entry {
    component::Chore chore;
    MonoTime due{};
    MonoDuration took{};         // the time of its last run
    ChoreHealth health{};        // guarded by the mutex, as is the next one
    bool schema_logged = false;  // a schema error was logged since the last success
  };

  [[nodiscard]] std::chrono::milliseconds interval() const override { return interval_; }
  void do_chore(Entry& entry, const std::stop_token& stop);
  void note_success(Entry& entry);
  void note_failure(Entry& entry, const std::exception& error);
  void report_failures(const ChoreHealth& health) const;
  [[nodiscard]] MonoDuration usual_pause(const component::Chore& chore) const;
  [[nodiscard]] MonoDuration pause_after(Entry& entry, MonoDuration took) const;

  storage::Database& database_;
  std::atomic<std::chrono::milliseconds> interval_;
  std::atomic<std::chrono::milliseconds> least_interval_{};  // of chores with their own
  const Logger log_;
  const Metrics metrics_;
  std::vector<Entry> entries_;
  bool begun_ = false;
  mutable std::mutex mutex_;
};

/// The chores of a queue: they reap expired leases, delete old history, and return messages of
/// resumed topics to the queue.
[[nodiscard]] std::vector<component::Chore> queue_chores(storage::Database& database,
                                                         const component::Queue& queue);

}  // namespace dovetail::runtime
