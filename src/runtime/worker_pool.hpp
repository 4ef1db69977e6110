// The threads that call handlers, shared by all dispatchers of a process.
//
// Each dispatcher has its own line of deliveries. The threads serve the lines in turn, so that a
// full line does not delay another one. Deliveries of a handler at its concurrency limit are
// skipped.
//
// A thread whose handler hangs is replaced. There are at most as many replacements as threads.
//
// Threads: from any. The pool calls its clients without holding its lock; a client may hold its own
// lock when it calls the pool.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dovetail/log.hpp"
#include "runtime/delivery.hpp"

namespace dovetail::runtime {

class WorkerPool {
 public:
  class Client {
   public:
    /// Called right before the handler. Returns false if the delivery must not begin.
    [[nodiscard]] virtual bool begin(const DeliveryPtr& delivery) = 0;
    /// Calls the handler and records the outcome.
    virtual void handle(const DeliveryPtr& delivery) = 0;

   protected:
    ~Client() = default;
  };

  /// Throws std::out_of_range for a number of threads that cannot work.
  WorkerPool(int threads, Logger log);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  /// Closes, and waits without limit for the handlers.
  ~WorkerPool();

  void start();
  /// Begins no further delivery. The threads end when their handlers have returned.
  void close();
  /// Waits until the threads have ended.
  void join();

  void submit(Client& client, std::vector<DeliveryPtr> deliveries);
  /// Takes back the deliveries that no thread has begun.
  [[nodiscard]] std::vector<DeliveryPtr> withdraw(const Client& client);
  /// Returns false if a thread has begun it.
  bool withdraw(const Client& client, const DeliveryPtr& delivery);
  /// Removes a client, which must have no deliveries any more.
  void remove(const Client& client);
  /// The handler of this delivery hangs: another thread replaces its thread.
  void replace(const DeliveryPtr& delivery);
  /// The commit of this delivery takes long: another thread calls handlers meanwhile. The delivery
  /// still counts towards the concurrency limit of its handler.
  void add_thread_for_blocked_commit(const DeliveryPtr& delivery);
  /// Returns false if as many threads have been added as there were at the start.
  [[nodiscard]] bool can_add_thread() const;

  /// The number of threads that do not hang.
  [[nodiscard]] int live_threads() const { return live_; }
  [[nodiscard]] int threads() const { return threads_; }

 private:
  struct Line {
    Client* client = nullptr;
    std::deque<DeliveryPtr> waiting;
  };
  struct Turn {
    Client* client = nullptr;
    DeliveryPtr delivery;
    /// The key of a handler with a limit. The handler may be gone when the turn ends.
    const void* limit_key = nullptr;
  };

  void run();
  /// Its thread no longer counts as live. A new thread is started, unless there are too many.
  void replace_thread_of(const DeliveryPtr& delivery);
  void add_thread();
  /// Waits for the next turn of this thread. Returns false if the thread is no longer needed.
  bool next(Turn& turn);
  bool find_turn(Turn& turn);
  bool end_turn(const Turn& turn);
  [[nodiscard]] bool may_start(const Delivery& delivery) const;
  [[nodiscard]] Line& line_of(Client& client);

  const int threads_;
  const Logger log_;
  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  bool closed_ = false;
  std::vector<Line> lines_;
  std::size_t turn_ = 0;                          // the line that is served next
  std::unordered_map<const void*, int> running_;  // running handlers with a limit, by limit_key()
  std::atomic<int> live_{0};
  int replacements_ = 0;
  std::vector<DeliveryPtr> unreplaced_;  // they hang, and their threads were not replaced
  std::vector<std::thread::id> exited_;  // threads that have ended and can be joined
  std::list<std::thread> workers_;
};

}  // namespace dovetail::runtime
