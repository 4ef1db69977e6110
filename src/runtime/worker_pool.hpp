// The threads that call handlers, shared by all dispatchers of a process.
//
// Each dispatcher has a line of deliveries of its own. The threads serve the lines in turn, so that
// a full line does not keep another one waiting. A handler at its concurrency limit is passed over.
//
// A thread whose handler hangs is replaced, up to as many times as there are threads.
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
    /// Called right before the handler. False: it is too late for the delivery.
    [[nodiscard]] virtual bool begin(const DeliveryPtr& delivery) = 0;
    /// Calls the handler and notes the outcome.
    virtual void handle(const DeliveryPtr& delivery) = 0;

   protected:
    ~Client() = default;
  };

  /// Throws std::out_of_range for a number of threads that cannot work.
  WorkerPool(int threads, Logger log);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  /// Closes, and waits for the handlers for as long as they take.
  ~WorkerPool();

  void start();
  /// Begins no further delivery. The threads end when their handlers have returned.
  void close();
  /// Waits until the threads have ended.
  void join();

  void submit(Client& client, std::vector<DeliveryPtr> deliveries);
  /// Takes back the deliveries that no thread has begun.
  [[nodiscard]] std::vector<DeliveryPtr> withdraw(const Client& client);
  /// False when a thread has begun it.
  bool withdraw(const Client& client, const DeliveryPtr& delivery);
  /// The client has no deliveries any more, and goes.
  void remove(const Client& client);
  /// The handler of this delivery hangs: another thread takes the place of its thread.
  void replace(const DeliveryPtr& delivery);
  /// The same, but the delivery keeps its place in the limit of its handler.
  void relieve(const DeliveryPtr& delivery);
  /// False when as many threads have been added as there were at the start.
  [[nodiscard]] bool can_relieve() const;

  /// Threads whose handlers return.
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
    /// Of a handler with a limit. The handler may be gone when the turn ends.
    const void* limit_key = nullptr;
  };

  void run();
  void add_thread();
  /// The next turn of this thread; false when the thread is not needed any more.
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
  std::unordered_map<const void*, int> running_;  // of handlers with a limit, by limit_key()
  std::atomic<int> live_{0};
  int replacements_ = 0;
  std::vector<DeliveryPtr> unreplaced_;  // they hang, and their threads were not replaced
  std::vector<std::thread::id> exited_;  // threads that have ended and can be joined
  std::list<std::thread> workers_;
};

}  // namespace dovetail::runtime
