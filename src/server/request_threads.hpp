// A few threads that run tasks from a bounded queue.
//
// Threads: may be shared between threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dovetail::server {

class RequestThreads {
 public:
  using Task = std::function<void()>;  ///< Must not throw.

  RequestThreads(std::size_t threads, std::size_t max_waiting);
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;
  /// Waits for the running tasks; the waiting ones are dropped.
  ~RequestThreads();

  /// Returns false when too many tasks wait already.
  [[nodiscard]] bool try_run(Task task);

 private:
  void run_tasks();

  const std::size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dovetail::server
