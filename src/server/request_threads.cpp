#include "server/request_threads.hpp"

#include "core/call_scope.hpp"

namespace dovetail::server {
namespace {

/// A caller gets the reason of an outage soon, and may repeat the request.
constexpr std::chrono::milliseconds request_retry_for{1'500};
constexpr std::chrono::milliseconds watch_interval{250};

}  // namespace

RequestThreads::RequestThreads(const RequestThreadsOptions& options) : options_(options) {
  threads_.reserve(options.threads + 1);
  for (std::size_t i = 0; i < options.threads; ++i) threads_.emplace_back([this] { run_tasks(); });
  threads_.emplace_back([this] { watch(); });
}

RequestThreads::~RequestThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& each : running_) each.stop.request_stop();
  }
  changed_.notify_all();
  stops_.notify_all();
  for (auto& thread : threads_) thread.join();
}

bool RequestThreads::try_run(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= options_.max_waiting) return false;
    waiting_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void RequestThreads::run_tasks() {
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    run(task);
  }
}

void RequestThreads::run(const Task& task) {
  std::unique_lock lock(mutex_);
  const auto entry =
      running_.insert(running_.end(), Running{.since = std::chrono::steady_clock::now()});
  if (stopping_) entry->stop.request_stop();
  lock.unlock();
  {
    const core::CallScope scope({.stop = entry->stop.get_token(), .retry_for = request_retry_for});
    task();
  }
  lock.lock();
  running_.erase(entry);
}

void RequestThreads::watch() {
  std::unique_lock lock(mutex_);
  while (!stops_.wait_for(lock, watch_interval, [this] { return stopping_; })) {
    const auto oldest = std::chrono::steady_clock::now() - options_.limit;
    for (auto& each : running_) {
      if (each.since < oldest) each.stop.request_stop();
    }
  }
}

}  // namespace dovetail::server
