// The events of `/api/v1/events`: one sample for all viewers, taken only while somebody listens.
//
// Threads: may be shared between threads. start() and stop() are called by one thread at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "server/databases.hpp"
#include "server/http/http_server.hpp"

namespace dovetail::server {

class EventHub {
 public:
  EventHub(const Databases& databases, std::chrono::milliseconds interval)
      : databases_(databases), interval_(interval) {}
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;
  ~EventHub() { stop(); }

  /// `http` must live until stop().
  void start(http::HttpServer& http);
  /// Waits for a sample that is being taken.
  void stop();

  /// The beginning of a new stream: the last event, if somebody listens already. Otherwise a sample
  /// is taken soon.
  [[nodiscard]] std::string beginning();

 private:
  void run(http::HttpServer& http);
  /// Waits until somebody listens. Returns false when the hub stops.
  bool wait_for_listeners(const http::HttpServer& http);

  const Databases databases_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool is_wanted_ = false;  ///< A stream is about to begin.
  std::string last_;
  std::thread thread_;
};

}  // namespace dovetail::server
