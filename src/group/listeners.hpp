// Limits the number of listeners in a group: the databases that had work last get one.
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

  /// The database has work, and gets a listener, if necessary that of a database without work.
  void acquire(storage::Listener& listener);
  /// The database has no work. Another one may take its listener.
  void mark_idle(storage::Listener& listener);
  /// Stops the listener, and waits for it.
  void remove(storage::Listener& listener);

 private:
  struct Seat {
    storage::Listener* listener = nullptr;
    bool idle = false;
  };

  const std::size_t most_;
  std::mutex mutex_;       // guards the seats
  std::mutex change_;      // held while a listener is started or stopped; locked first
  std::list<Seat> seats_;  // the most recently used first
};

}  // namespace dovetail::group
