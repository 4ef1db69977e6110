// Does the chores of all components of a node, one after the other.
//
// Each chore has a time of its own. A chore that takes long is done less often: it may take one
// part in 50 of the time. A chore that fails is logged and tried again at its next time.
//
// Threads: start() once; stop() from one; health() from any.
#pragma once

#include <mutex>
#include <thread>
#include <vector>

#include "component/component.hpp"

namespace dovetail::runtime {

class Housekeeper final : public component::Service {
 public:
  Housekeeper(storage::Database& database, std::vector<component::Chore> chores,
              std::chrono::milliseconds interval, Logger log, Metrics metrics);
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;
  ~Housekeeper() override = default;

  [[nodiscard]] std::string name() const override { return "housekeeper"; }
  void start() override;
  void request_stop() override { thread_.request_stop(); }
  bool stop(MonoTime deadline) override;
  /// The chore with the most failures in a row.
  [[nodiscard]] component::ServiceHealth health() const override;

 private:
  struct Entry {
    component::Chore chore;
    MonoTime due{};
    int failures = 0;  // in a row; guarded by the mutex, as the next one
    std::string last_error{};
  };

  void run(const std::stop_token& stop);
  void do_chore(Entry& entry, const std::stop_token& stop);
  void note_failure(Entry& entry, const std::exception& error);
  [[nodiscard]] MonoDuration pause_after(MonoDuration took) const;

  storage::Database& database_;
  const std::chrono::milliseconds interval_;
  const Logger log_;
  const Metrics metrics_;
  std::vector<Entry> entries_;
  mutable std::mutex mutex_;
  std::jthread thread_;  // last: it uses the rest
};

/// The chores of a queue: reaps expired leases, deletes old history, and lets messages of resumed
/// topics back into the queue.
[[nodiscard]] std::vector<component::Chore> queue_chores(storage::Database& database,
                                                         const component::Queue& queue);

}  // namespace dovetail::runtime
