// Runs the chores of all components of a node, one after the other.
//
// Each chore has its own due time. A slow chore runs less often: it may take at most 1/50 of the
// time. A failed chore is logged, and retried at its next due time.
//
// Threads: health() from any; the rest from one thread at a time.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "component/component.hpp"
#include "component/stepped_service.hpp"

namespace dovetail::runtime {

class Housekeeper final : public component::SteppedService {
 public:
  Housekeeper(storage::Database& database, std::vector<component::Chore> chores,
              std::chrono::milliseconds interval, Logger log, Metrics metrics);
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;
  ~Housekeeper() override { Housekeeper::stop(MonoTime{}); }

  [[nodiscard]] std::string name() const override { return "housekeeper"; }
  MonoTime step(const std::stop_token& stop) override;
  /// Sets the usual time between two runs of a chore. Takes effect at the next run of each chore.
  void set_interval(std::chrono::milliseconds interval) { interval_ = interval; }
  /// Returns the health of the chore with the most consecutive failures.
  [[nodiscard]] component::ServiceHealth health() const override;

 private:
  struct Entry {
    component::Chore chore;
    MonoTime due{};
    int failures = 0;  // consecutive; guarded by the mutex, as is the next one
    std::string last_error{};
  };

  void do_chore(Entry& entry, const std::stop_token& stop);
  void note_failure(Entry& entry, const std::exception& error);
  [[nodiscard]] MonoDuration pause_after(MonoDuration took) const;

  storage::Database& database_;
  std::atomic<std::chrono::milliseconds> interval_;
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
