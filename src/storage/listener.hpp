// Hears other processes' announcements, for all parts of a process that work on one database.
//
// Threads: start() and stop() from one; the rest from any.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "dovetail/log.hpp"
#include "storage/database.hpp"
#include "storage/doorbell.hpp"

namespace dovetail::storage {

class Listener {
 public:
  Listener(Database& database, Logger log) : database_(database), log_(std::move(log)) {}

  /// Calls `changed` when the listener begins to hear, and when it no longer does.
  class Subscription {
   public:
    Subscription(Listener& listener, std::function<void()> changed)
        : entry_(listener.changes_, std::move(changed)) {}

   private:
    Doorbell::Subscription entry_;
  };

  void start();
  /// Returns at once; stop() waits.
  void request_stop() { thread_.request_stop(); }
  void stop();
  /// While it is true, the database's bells ring for messages that other processes announce.
  [[nodiscard]] bool hears_others() const { return hears_others_; }

 private:
  void run(const std::stop_token& stop);

  Database& database_;
  Logger log_;
  Doorbell changes_;
  std::atomic<bool> hears_others_{false};
  std::jthread thread_;
};

}  // namespace dovetail::storage
