#include "runtime/worker_pool.hpp"

#include <algorithm>
#include <stdexcept>

namespace dovetail::runtime {

WorkerPool::WorkerPool(int threads, Logger log) : threads_(threads), log_(std::move(log)) {
  if (threads < 1 || threads > 1'000) {
    throw std::out_of_range("threads must be 0 (as many as fit) to 1000");
  }
}

WorkerPool::~WorkerPool() {
  close();
  join();
}

void WorkerPool::start() {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < threads_; ++i) add_thread();
}

void WorkerPool::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  wakes_.notify_all();
}

void WorkerPool::join() {
  std::list<std::thread> workers;
  {
    const std::lock_guard lock(mutex_);
    workers.swap(workers_);
  }
  for (auto& worker : workers) worker.join();
}

void WorkerPool::add_thread() {
  workers_.emplace_back([this] { run(); });
  ++live_;
}

WorkerPool::Line& WorkerPool::line_of(Client& client) {
  const auto found = std::ranges::find(lines_, &client, &Line::client);
  if (found != lines_.end()) return *found;
  return lines_.emplace_back(Line{.client = &client, .waiting = {}});
}

void WorkerPool::submit(Client& client, std::vector<DeliveryPtr> deliveries) {
  if (deliveries.empty()) return;
  const std::lock_guard lock(mutex_);
  auto& line = line_of(client);
  std::ranges::move(deliveries, std::back_inserter(line.waiting));
  if (deliveries.size() == 1) {
    wakes_.notify_one();
  } else {
    wakes_.notify_all();
  }
}

std::vector<DeliveryPtr> WorkerPool::withdraw(const Client& client) {
  const std::lock_guard lock(mutex_);
  std::vector<DeliveryPtr> taken;
  for (auto& line : lines_) {
    if (line.client != &client) continue;
    std::ranges::move(line.waiting, std::back_inserter(taken));
    line.waiting.clear();
  }
  return taken;
}

bool WorkerPool::withdraw(const Client& client, const DeliveryPtr& delivery) {
  const std::lock_guard lock(mutex_);
  for (auto& line : lines_) {
    if (line.client == &client && std::erase(line.waiting, delivery) > 0) return true;
  }
  return false;
}

void WorkerPool::remove(const Client& client) {
  const std::lock_guard lock(mutex_);
  std::erase_if(lines_, [&](const Line& line) { return line.client == &client; });
  turn_ = 0;
}

void WorkerPool::run() {
  for (Turn turn; next(turn);) {
    if (turn.client->begin(turn.delivery)) turn.client->handle(turn.delivery);
  }
}

bool WorkerPool::may_start(const Delivery& delivery) const {
  const auto limit = delivery.handler->options.concurrency;
  if (limit == 0) return true;
  const auto busy = running_.find(delivery.handler->limit_key());
  return busy == running_.end() || busy->second < limit;
}

bool WorkerPool::next(Turn& turn) {
  std::unique_lock lock(mutex_);
  if (turn.delivery && !end_turn(turn)) return false;
  turn = {};
  while (!closed_) {
    if (find_turn(turn)) return true;
    wakes_.wait(lock);
  }
  return false;
}

bool WorkerPool::find_turn(Turn& turn) {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    auto& line = lines_[(turn_ + i) % lines_.size()];
    const auto found = std::ranges::find_if(
        line.waiting, [this](const DeliveryPtr& each) { return may_start(*each); });
    if (found == line.waiting.end()) continue;
    turn = {line.client, std::move(*found), nullptr};
    line.waiting.erase(found);
    turn_ = (turn_ + i + 1) % lines_.size();
    if (turn.delivery->handler->options.concurrency > 0) {
      turn.limit_key = turn.delivery->handler->limit_key();
      ++running_[turn.limit_key];
    }
    return true;
  }
  return false;
}

/// Returns false if this thread hung and another one has replaced it.
bool WorkerPool::end_turn(const Turn& turn) {
  auto& delivery = *turn.delivery;
  if (turn.limit_key != nullptr && !delivery.limit_released) {
    if (--running_[turn.limit_key] == 0) running_.erase(turn.limit_key);
    wakes_.notify_one();  // this thread may take another delivery first
  }
  if (!delivery.hangs) return true;
  if (!delivery.replaced) {
    std::erase(unreplaced_, turn.delivery);
    ++live_;
    return true;
  }
  if (!unreplaced_.empty()) {  // this thread replaces another one that still hangs
    unreplaced_.back()->replaced = true;
    unreplaced_.pop_back();
    ++live_;
    return true;
  }
  --replacements_;
  exited_.push_back(std::this_thread::get_id());
  return false;
}

void WorkerPool::replace(const DeliveryPtr& delivery) {
  {
    const std::lock_guard lock(mutex_);
    delivery->limit_released = true;
    if (delivery->handler->options.concurrency > 0) {
      if (--running_[delivery->handler->limit_key()] == 0)
        running_.erase(delivery->handler->limit_key());
    }
  }
  replace_thread_of(delivery);
}

void WorkerPool::add_thread_for_blocked_commit(const DeliveryPtr& delivery) {
  replace_thread_of(delivery);
}

bool WorkerPool::can_add_thread() const {
  const std::lock_guard lock(mutex_);
  return replacements_ < threads_;
}

void WorkerPool::replace_thread_of(const DeliveryPtr& delivery) {
  std::list<std::thread> ended;
  {
    const std::lock_guard lock(mutex_);
    if (delivery->hangs) return;
    delivery->hangs = true;
    --live_;
    try {
      if (replacements_ < threads_ && !closed_) {
        add_thread();
        delivery->replaced = true;
        ++replacements_;
      }
    } catch (const std::exception& error) {
      log_.write(LogLevel::error, "platform.worker_not_replaced", {{"error", error.what()}});
    }
    if (!delivery->replaced) unreplaced_.push_back(delivery);
    for (auto worker = workers_.begin(); worker != workers_.end();) {
      const auto after = std::next(worker);
      if (std::erase(exited_, worker->get_id()) > 0) ended.splice(ended.end(), workers_, worker);
      worker = after;
    }
    wakes_.notify_all();
  }
  for (auto& thread : ended) thread.join();
}

}  // namespace dovetail::runtime
