// Publishes to RabbitMQ with confirms. All messages of a call are sent before the first confirm is
// awaited.
#pragma once

#include <memory>
#include <string>

#include "transport/link_pool.hpp"
#include "transport/rabbitmq/connection.hpp"
#include "transport/rabbitmq/publish_round.hpp"

namespace dovetail::transport::rabbitmq {

/// A connection whose channel confirms messages.
class PublishConnection : public Connection {
 public:
  PublishConnection(StatePtr state, const RabbitMqPublisherOptions& options);
  ~PublishConnection() override { end(); }

  /// Sends the messages of the round, and waits for their confirms. Returns false if some did not
  /// come. Nothing refers to the round afterwards.
  bool publish(PublishRound& round, const TransportCall& call);
  /// Asks the broker for an answer. Throws std::runtime_error if there is none.
  void check(const TransportCall& call);

 private:
  void on_method(const amqp_method_t& method) override;
  void on_content(const Content& content) override;
  void go_on() override;
  [[nodiscard]] bool has_more_work() const override;
  void on_leave() override { round_ = nullptr; }

  void send(std::uint64_t tag, std::size_t index);
  void reopen_channel(const amqp_channel_close_t& close);
  void select_confirms();

  const RabbitMqPublisherOptions options_;
  PublishRound* round_ = nullptr;
  std::string source_;
  std::uint64_t last_tag_ = 0;
};

class RabbitMqPublisher : public Publisher {
 public:
  RabbitMqPublisher(std::shared_ptr<const RabbitMqOptions> connection,
                    RabbitMqPublisherOptions options);

  [[nodiscard]] std::string kind() const override { return "rabbitmq"; }
  [[nodiscard]] std::string address() const override { return address_of(*connection_options_); }
  [[nodiscard]] std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                                    const TransportCall& call) override;
  void probe(const TransportCall& call) override;
  [[nodiscard]] std::optional<std::string> blocked() const override;
  void close() noexcept override { links_.drop(); }

 private:
  const std::shared_ptr<const RabbitMqOptions> connection_options_;
  const RabbitMqPublisherOptions options_;
  LinkPool<PublishConnection> links_;
};

/// Calls `connect` with each URL, beginning with a random one, until one does not throw.
template <class Connect>
auto with_any_url(const RabbitMqOptions& options, const Connect& connect) {
  const auto& urls = options.urls;
  const auto first = static_cast<std::size_t>(core::random_unit() * double(urls.size()));
  for (std::size_t i = 0;; ++i) {
    try {
      return connect(urls[(first + i) % urls.size()]);
    } catch (const std::exception&) {
      if (i + 1 >= urls.size()) throw;
    }
  }
}

}  // namespace dovetail::transport::rabbitmq
