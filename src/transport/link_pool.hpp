// A few connections of one publisher, so that calls of several threads do not wait for each other.
// A connection is made when more callers than connections are there.
//
// Threads: may be shared between threads.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "transport/link.hpp"

namespace dovetail::transport {

template <class Connection>
class LinkPool {
  struct Seat {
    std::timed_mutex turn;
    std::unique_ptr<Link<Connection>> link;
    mutable std::mutex mutex;
    std::weak_ptr<Connection> current;
  };

 public:
  LinkPool(const typename Link<Connection>::Connect& connect, std::chrono::milliseconds patience) {
    for (auto& seat : seats_) seat.link = std::make_unique<Link<Connection>>(connect, patience);
  }

  /// A connection that belongs to its caller.
  class Lease {
   public:
    [[nodiscard]] Connection& operator*() const { return *connection_; }
    [[nodiscard]] Connection* operator->() const { return connection_.get(); }
    /// Ends the connection. The next caller makes a new one.
    void drop() { seat_->link->drop(); }

   private:
    friend class LinkPool;
    Seat* seat_ = nullptr;
    std::unique_lock<std::timed_mutex> turn_;
    std::shared_ptr<Connection> connection_;
  };

  /// Throws std::runtime_error if there is no connection until the deadline.
  Lease open(const TransportCall& call) {
    Lease lease;
    lease.turn_ = free_seat(call, lease.seat_);
    lease.connection_ = lease.seat_->link->open(call);
    const std::lock_guard lock(lease.seat_->mutex);
    lease.seat_->current = lease.connection_;
    return lease;
  }

  void drop() noexcept {
    for (auto& seat : seats_) seat.link->drop();
  }

  /// The first result for an open connection that is not empty.
  template <class Question>
  auto first_of(const Question& question) const {
    for (const auto& seat : seats_) {
      const std::lock_guard lock(seat.mutex);
      const auto connection = seat.current.lock();
      if (connection && connection->is_open()) {
        if (auto result = question(*connection)) return result;
      }
    }
    return decltype(question(std::declval<const Connection&>())){};
  }

 private:
  std::unique_lock<std::timed_mutex> free_seat(const TransportCall& call, Seat*& found) {
    for (auto& seat : seats_) {
      found = &seat;
      std::unique_lock turn(seat.turn, std::try_to_lock);
      if (turn) return turn;
    }
    std::unique_lock turn(found->turn, call.deadline);
    if (!turn) throw std::runtime_error("all connections to the broker are busy");
    return turn;
  }

  std::array<Seat, 4> seats_;
};

}  // namespace dovetail::transport
