// One connection to a broker, and the thread that serves it. It is never reconnected: when it has
// ended, its owner makes a new one.
//
// The library is not made for several threads. So only the thread of the connection touches its
// objects, and others post work to it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <proton/connection.hpp>
#include <proton/container.hpp>
#include <proton/messaging_handler.hpp>
#include <string>
#include <thread>

#include "dovetail/amqp.hpp"

namespace dovetail::transport::amqp {

class Connection : public proton::messaging_handler {
 public:
  explicit Connection(const AmqpOptions& options);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override = default;

  /// Connects. Throws std::runtime_error, without secrets in its text.
  void open(const TransportCall& call);
  /// Ends the calls that wait, and accepts no more work.
  void leave() { lose("the connection was closed"); }
  /// Why the connection has ended. Nothing: it has not.
  [[nodiscard]] std::optional<std::string> lost() const;

 protected:
  /// Ends the thread. The destructor of each final class calls it.
  void end() noexcept;
  /// Lets the thread call `work`. Returns false if the connection has ended.
  bool post(const std::function<void()>& work);
  /// See lost(). Under the mutex.
  [[nodiscard]] const std::optional<std::string>& lost_reason() const { return lost_; }

  // The thread of the connection calls these.
  virtual void on_ready(proton::connection& /*connection*/) {}
  void lose(const std::string& reason);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;

 private:
  void run() noexcept;

  void on_container_start(proton::container& container) final;
  void on_connection_open(proton::connection& connection) final;
  void on_connection_close(proton::connection& connection) final;
  void on_connection_error(proton::connection& connection) final;
  void on_transport_error(proton::transport& transport) final;
  void on_transport_close(proton::transport& transport) final;
  void on_error(const proton::error_condition& error) final;

  const AmqpOptions options_;
  proton::container container_;
  std::thread thread_;
  proton::connection connection_;             ///< Of the thread.
  proton::work_queue* work_queue_ = nullptr;  ///< Under mutex_.
  std::optional<std::string> lost_;           ///< Under mutex_.
};

}  // namespace dovetail::transport::amqp
