// Keeps one connection to a broker, and makes a new one when a caller needs it.
//
// Connecting is done by a thread of its own, because the libraries of brokers cannot be interrupted
// while they resolve a name or wait for a TLS handshake. So no caller waits longer than its
// deadline. After a failure, the next attempt waits, with full jitter.
//
// Threads: may be shared between threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/transport.hpp"

namespace dovetail::transport {

/// `Connection` has `bool is_open() const`.
template <class Connection>
class Link {
 public:
  using Connect = std::function<std::shared_ptr<Connection>()>;

  /// `connect` throws if it fails. An attempt that takes longer than `patience` is left alone, and
  /// the next one is begun.
  Link(Connect connect, std::chrono::milliseconds patience)
      : connect_(std::move(connect)), patience_(patience) {}
  ~Link() { leave_attempt(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// The open connection, or a new one. Throws std::runtime_error if there is none until the
  /// deadline.
  std::shared_ptr<Connection> open(const TransportCall& call) {
    std::unique_lock lock(mutex_);
    if (connection_ && connection_->is_open()) return connection_;
    auto ended = std::exchange(connection_, nullptr);
    if (!attempt_) wait_for_turn(lock, call);
    if (!attempt_) begin_attempt();
    return finish_attempt(lock, call);
  }

  /// Ends the connection. The next open() makes a new one.
  void drop() noexcept {
    std::shared_ptr<Connection> ended;
    std::lock_guard lock(mutex_);
    ended.swap(connection_);
  }

 private:
  struct Attempt {
    std::mutex mutex;
    std::condition_variable_any done_changed;
    bool done = false;
    std::shared_ptr<Connection> connection;
    std::string error;
  };

  void wait_for_turn(std::unique_lock<std::mutex>& lock, const TransportCall& call) {
    const auto deadline = std::min(call.deadline, not_before_);
    std::condition_variable_any never;
    never.wait_until(lock, call.stop, deadline, [] { return false; });
    if (MonoTime::clock::now() < not_before_) throw std::runtime_error(last_error_);
  }

  void begin_attempt() {
    attempt_ = std::make_shared<Attempt>();
    began_ = MonoTime::clock::now();
    thread_ = std::thread([attempt = attempt_, connect = connect_] { run(*attempt, connect); });
  }

  static void run(Attempt& attempt, const Connect& connect) {
    std::shared_ptr<Connection> made;
    std::string error = "the connection failed";
    try {
      made = connect();
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    std::lock_guard lock(attempt.mutex);
    attempt.connection = std::move(made);
    attempt.error = error;
    attempt.done = true;
    attempt.done_changed.notify_all();
  }

  std::shared_ptr<Connection> finish_attempt(std::unique_lock<std::mutex>&,
                                             const TransportCall& call) {
    const auto attempt = attempt_;
    std::unique_lock lock(attempt->mutex);
    attempt->done_changed.wait_until(lock, call.stop, call.deadline, [&] { return attempt->done; });
    if (!attempt->done) {
      if (MonoTime::clock::now() > began_ + patience_) leave_attempt_locked();
      throw std::runtime_error(call.stop.stop_requested()
                                   ? "the call was stopped"
                                   : "the broker did not accept the connection in time");
    }
    thread_.join();
    attempt_.reset();
    if (!attempt->connection) {
      last_error_ = attempt->error;
      not_before_ =
          MonoTime::clock::now() + FullJitterBackoff{}.delay(failures_++, core::random_unit());
      throw std::runtime_error(last_error_);
    }
    failures_ = 0;
    connection_ = std::move(attempt->connection);
    return connection_;
  }

  void leave_attempt_locked() {
    if (thread_.joinable()) thread_.detach();
    attempt_.reset();
  }

  /// Waits for an attempt, but not for one that hangs.
  void leave_attempt() noexcept {
    if (!attempt_) return;
    {
      std::unique_lock lock(attempt_->mutex);
      attempt_->done_changed.wait_for(lock, patience_, [&] { return attempt_->done; });
      if (!attempt_->done) {
        thread_.detach();
        return;
      }
    }
    thread_.join();
  }

  const Connect connect_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Attempt> attempt_;
  std::thread thread_;
  MonoTime began_{};
  MonoTime not_before_{};
  std::string last_error_;
  int failures_ = 0;
};

}  // namespace dovetail::transport
