// Rations the listeners of a group: the databases that had work last have one.
//
// Threads: from any.
#pragma once

#include <list>
#include <mutex>

#include "storage/listener.hpp"

namespace dovetail::group {

class Listeners {
 public:
  explicit Listeners(std::size_t most) : most_(most) {}

  /// The database has work: it gets a listener, if need be that of a database without work.
  void want(storage::Listener& listener);
  /// The database has no work: another one may have its listener.
  void spare(storage::Listener& listener);
  /// Stops the listener, and waits for it.
  void remove(storage::Listener& listener);

 private:
  struct Seat {
    storage::Listener* listener = nullptr;
    bool spare = false;
  };

  const std::size_t most_;
  std::mutex mutex_;       // guards the seats
  std::mutex change_;      // held while a listener is started or stopped; taken first
  std::list<Seat> seats_;  // the latest first
};

}  // namespace dovetail::group
