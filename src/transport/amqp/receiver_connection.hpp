// A connection that receives messages of one address.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <proton/delivery.hpp>
#include <proton/receiver.hpp>
#include <span>
#include <string>
#include <vector>

#include "transport/amqp/connection.hpp"

namespace dovetail::transport::amqp {

class ReceiverConnection final : public Connection {
 public:
  /// `tags` numbers the messages of all connections of a consumer.
  ReceiverConnection(const AmqpOptions& options, std::string address,
                     std::atomic<std::uint64_t>& tags)
      : Connection(options), address_(std::move(address)), tags_(tags) {}
  ~ReceiverConnection() override { end(); }

  /// Throws std::runtime_error if the connection has ended.
  [[nodiscard]] std::vector<IncomingMessage> receive(std::size_t most, const TransportCall& call);

  enum class Outcome { accept, release };
  /// Waits until the outcomes are on their way. Unknown tags are ignored.
  void settle(std::span<const std::uint64_t> tags, Outcome outcome, const TransportCall& call);

 private:
  // The thread of the connection calls these.
  void grant(std::size_t most);
  void settle_now(const std::vector<std::uint64_t>& tags, Outcome outcome);

  void on_ready(proton::connection& connection) override;
  void on_message(proton::delivery& delivery, proton::message& message) override;
  void on_receiver_close(proton::receiver& receiver) override;
  void on_receiver_error(proton::receiver& receiver) override;
  void on_session_close(proton::session& session) override;
  void on_session_error(proton::session& session) override;

  const std::string address_;
  std::atomic<std::uint64_t>& tags_;

  // Of the thread of the connection.
  proton::receiver receiver_;
  std::map<std::uint64_t, proton::delivery> deliveries_;

  std::deque<IncomingMessage> arrived_;  ///< Under the mutex.
};

}  // namespace dovetail::transport::amqp
