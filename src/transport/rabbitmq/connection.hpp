// One connection to RabbitMQ, with the thread that owns it.
//
// After the login, only that thread uses rabbitmq-c. It reads what arrives, answers heartbeats and
// runs the jobs of callers. A caller whose deadline has passed ends the connection by shutting down
// its socket, which wakes the thread wherever it waits.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/transport.hpp"
#include "transport/rabbitmq/content.hpp"
#include "transport/rabbitmq/login.hpp"

namespace dovetail::transport::rabbitmq {

class Connection {
 public:
  explicit Connection(StatePtr state);
  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] bool is_open() const;
  /// Why the connection has ended.
  [[nodiscard]] std::string end_reason() const;
  /// The broker's reason to block publishers, if it does.
  [[nodiscard]] std::optional<std::string> blocked() const;

  /// Starts the thread. After that, derived classes use state() only in it.
  void start();
  /// Says goodbye to the broker, and ends the connection and the thread. Derived classes call it in
  /// their destructors.
  void end() noexcept;
  /// Ends the connection at once.
  void abort(const std::string& reason);

 protected:
  [[nodiscard]] amqp_connection_state_t state() const { return state_.get(); }

  /// Runs a job in the thread, and waits until `done` is true, which is called with mutex_ held.
  /// Returns false if the connection has ended, the deadline has passed or a stop was requested
  /// before. The job does not run any more after that: a connection that is still at it is ended.
  bool run(const std::function<void()>& job, const std::function<bool()>& done,
           const TransportCall& call);
  /// In the thread: reads what is there, and does not wait.
  void read_frames();
  // Called in the thread, without mutex_.
  virtual void on_method(const amqp_method_t& method) = 0;
  virtual void on_content(const Content& content) = 0;
  /// Goes on with the work of a job, after frames were read, while has_more_work() is true.
  virtual void go_on() {}

  // Called with mutex_ held.
  [[nodiscard]] virtual bool has_more_work() const { return false; }
  [[nodiscard]] bool has_ended() const { return ended_; }
  /// The caller of run() leaves: what the job refers to must not be used any more.
  virtual void on_leave() {}

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<std::string> blocked_;

 private:
  void loop();
  void say_goodbye();
  void wait_for_work();
  void run_jobs();
  bool finish(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  bool read_frame();
  void handle(const amqp_frame_t& frame);
  bool handle_connection_method(const amqp_method_t& method);

  const StatePtr state_;
  int socket_ = -1;       ///< A duplicate, so that its number stays ours.
  int wake_up_ = -1;      ///< An event that wakes the thread.
  bool closing_ = false;  ///< The thread shall say goodbye.
  bool ending_ = false;
  bool ended_ = false;
  std::string end_reason_;
  std::function<void()> job_;
  bool in_job_ = false;
  ContentReader content_;
  std::thread thread_;
};

}  // namespace dovetail::transport::rabbitmq
