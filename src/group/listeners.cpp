#include "group/listeners.hpp"

#include <algorithm>

namespace dovetail::group {

void Listeners::acquire(storage::Listener& listener) {
  // While another listener is started or stopped, this database continues without one. A stop may
  // take long if its database hangs.
  const std::unique_lock changing(change_, std::try_to_lock);
  if (!changing.owns_lock()) return;
  storage::Listener* loser = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto own = std::ranges::find(seats_, &listener, &Seat::listener);
    if (own != seats_.end()) {
      own->idle = false;
      seats_.splice(seats_.begin(), seats_, own);
      return;
    }
    if (seats_.size() >= most_) {
      const auto last =
          std::find_if(seats_.rbegin(), seats_.rend(), [](const Seat& seat) { return seat.idle; });
      if (last == seats_.rend()) return;
      loser = last->listener;
      seats_.erase(std::next(last).base());
    }
    seats_.push_front({.listener = &listener, .idle = false});
  }
  if (loser != nullptr) loser->stop();
  listener.start();
}

void Listeners::mark_idle(storage::Listener& listener) {
  const std::lock_guard lock(mutex_);
  const auto own = std::ranges::find(seats_, &listener, &Seat::listener);
  if (own != seats_.end()) own->idle = true;
}

void Listeners::remove(storage::Listener& listener) {
  const std::lock_guard changing(change_);
  {
    const std::lock_guard lock(mutex_);
    if (std::erase_if(seats_, [&](const Seat& seat) { return seat.listener == &listener; }) == 0) {
      return;
    }
  }
  listener.stop();
}

}  // namespace dovetail::group
