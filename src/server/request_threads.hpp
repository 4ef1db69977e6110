// A few threads that run tasks from a bounded queue.
//
// A task that takes longer than its limit gets a stop request, which ends its database calls
// (core/call_scope.hpp). So a request that waits for a lock does not keep a thread for ever.
//
// Threads: may be shared between threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace dovetail::server {

struct RequestThreadsOptions {
  std::size_t threads = 1;
  std::size_t max_waiting = 1;
  std::chrono::milliseconds limit{30'000};  ///< Of one task.
};

class RequestThreads {
 public:
  using Task = std::function<void()>;  ///< Must not throw.

  explicit RequestThreads(const RequestThreadsOptions& options);
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;
  /// Cancels the running tasks and waits for them; the waiting ones are dropped.
  ~RequestThreads();

  /// Returns false when too many tasks wait already.
  [[nodiscard]] bool try_run(Task task);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Running {
    TimePoint since{};
    std::stop_source stop{};
  };

  void run_tasks();
  void run(const Task& task);
  /// Cancels tasks that have taken too long.
  void watch();

  const RequestThreadsOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable stops_;
  std::deque<Task> waiting_;
  std::list<Running> running_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dovetail::server
