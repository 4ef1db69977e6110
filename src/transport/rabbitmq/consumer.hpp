// Receives from a queue of RabbitMQ. The broker sends up to `prefetch` messages ahead.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "transport/link.hpp"
#include "transport/rabbitmq/connection.hpp"

namespace dovetail::transport::rabbitmq {

/// A connection that consumes a queue.
class ConsumeConnection : public Connection {
 public:
  ConsumeConnection(StatePtr state, const RabbitMqConsumerOptions& options);
  ~ConsumeConnection() override { end(); }

  /// Waits until there are messages. Their tags are those of this connection. Throws
  /// std::runtime_error if the connection has ended.
  std::vector<IncomingMessage> fetch(std::size_t most, const TransportCall& call);
  /// Sends the answers. Throws std::runtime_error if they could not be sent.
  void answer(std::span<const std::uint64_t> tags, bool stored, const TransportCall& call);

 private:
  void on_method(const amqp_method_t& method) override;
  void on_content(const Content& content) override;

  std::deque<IncomingMessage> arrived_;
};

class RabbitMqConsumer : public Consumer {
 public:
  RabbitMqConsumer(std::shared_ptr<const RabbitMqOptions> connection,
                   RabbitMqConsumerOptions options);

  [[nodiscard]] std::string kind() const override { return "rabbitmq"; }
  [[nodiscard]] std::string address() const override { return address_of(*connection_options_); }
  [[nodiscard]] std::vector<IncomingMessage> fetch(std::size_t most,
                                                   const TransportCall& call) override;
  void ack(std::span<const std::uint64_t> tags, const TransportCall& call) override;
  void give_back(std::span<const std::uint64_t> tags, const TransportCall& call) override;
  void close() noexcept override;

 private:
  void answer(std::span<const std::uint64_t> tags, bool stored, const TransportCall& call);

  const std::shared_ptr<const RabbitMqOptions> connection_options_;
  const RabbitMqConsumerOptions options_;
  std::mutex turn_;
  std::shared_ptr<ConsumeConnection> current_;
  std::uint64_t generation_ = 0;  ///< Of current_. Tags contain it.
  Link<ConsumeConnection> link_;
};

}  // namespace dovetail::transport::rabbitmq
