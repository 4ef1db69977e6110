// Calls a discovery on a thread of its own, so that a call that hangs delays nobody.
//
// A call that exceeds the time limit fails: its stop token fires, and its result is ignored. The
// next call begins only after it has returned. The destructor does not wait for it: the thread
// keeps the discovery, and ends with the call.
//
// Time limits are limits of I/O: they use the system's clock.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "dovetail/discovery.hpp"

namespace dovetail::group {

class DiscoveryCalls {
 public:
  DiscoveryCalls(std::shared_ptr<DatabaseDiscovery> source, std::chrono::milliseconds limit);
  DiscoveryCalls(const DiscoveryCalls&) = delete;
  DiscoveryCalls& operator=(const DiscoveryCalls&) = delete;
  ~DiscoveryCalls();

  /// Waits for find() of the discovery, and throws its error. Throws Error with
  /// ErrorKind::cancelled after the time limit, after `stop`, and while an earlier call hangs.
  [[nodiscard]] std::vector<DatabaseEntry> find(const std::stop_token& stop);
  /// The same, for has_changed().
  [[nodiscard]] bool has_changed(const std::stop_token& stop);
  /// Waits until no call is under way. Returns false after the deadline.
  bool wait_for_end(std::chrono::steady_clock::time_point deadline);

 private:
  struct Call;
  struct Shared;
  using Ask = std::function<void(DatabaseDiscovery&, Call&)>;

  static void run(const std::shared_ptr<Shared>& shared);
  [[nodiscard]] std::shared_ptr<Call> make(Ask ask, const std::stop_token& stop);

  const std::shared_ptr<Shared> shared_;
  const std::chrono::milliseconds limit_;
};

}  // namespace dovetail::group
