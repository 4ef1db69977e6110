#include "dovetail/amqp.hpp"

#include <mutex>
#include <stdexcept>

#include "transport/amqp/broker.hpp"
#include "transport/amqp/mapping.hpp"
#include "transport/amqp/receiver_connection.hpp"
#include "transport/amqp/sender_connection.hpp"
#include "transport/cloud_events.hpp"

namespace dovetail {
namespace {

using transport::amqp::Outgoing;
using transport::amqp::ReceiverConnection;
using transport::amqp::SenderConnection;
using AmqpOptionsPtr = std::shared_ptr<const AmqpOptions>;

class AmqpPublisher final : public Publisher {
 public:
  AmqpPublisher(AmqpOptionsPtr options, AmqpPublisherOptions own)
      : options_(std::move(options)), own_(std::move(own)) {
    if (own_.address.empty()) throw std::invalid_argument("address must not be empty");
    static_cast<void>(transport::filled(own_.address, Message{}));
  }

  [[nodiscard]] std::string kind() const override { return "amqp"; }
  [[nodiscard]] std::string address() const override {
    return transport::amqp::parse_broker_url(options_->url).shown();
  }

  [[nodiscard]] std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                                    const TransportCall& call) override {
    const auto connection = opened(call);
    const auto source = call.source.empty() ? std::string_view{"dovetail"} : call.source;
    std::vector<Outgoing> outgoing;
    outgoing.reserve(messages.size());
    for (const auto& each : messages) {
      outgoing.push_back({transport::filled(own_.address, each),
                          transport::amqp::to_amqp(each, source), each.payload.size()});
    }
    return connection->send(std::move(outgoing), call);
  }

  void probe(const TransportCall& call) override { static_cast<void>(opened(call)); }

  [[nodiscard]] std::optional<std::string> blocked() const override {
    const std::lock_guard lock(state_);
    const bool is_blocked = connection_ && !connection_->lost() && connection_->is_starved();
    return is_blocked ? std::optional<std::string>{"the broker grants no credit"} : std::nullopt;
  }

  void close() noexcept override {
    const std::lock_guard lock(connects_);
    if (connection_) connection_->leave();
    set(nullptr);
  }

 private:
  void set(std::shared_ptr<SenderConnection> connection) {
    std::shared_ptr<SenderConnection> ended;
    const std::lock_guard lock(state_);
    ended.swap(connection_);  // ends without the mutex of others
    connection_ = std::move(connection);
  }

  std::shared_ptr<SenderConnection> opened(const TransportCall& call) {
    const std::lock_guard lock(connects_);
    if (connection_ && !connection_->lost()) return connection_;
    set(nullptr);
    auto connection = std::make_shared<SenderConnection>(*options_);
    connection->open(call);
    set(connection);
    return connection;
  }

  const AmqpOptionsPtr options_;
  const AmqpPublisherOptions own_;
  std::mutex connects_;       ///< One call connects, and others wait for it.
  mutable std::mutex state_;  ///< Guards the pointer, for blocked().
  std::shared_ptr<SenderConnection> connection_;
};

class AmqpConsumer final : public Consumer {
 public:
  AmqpConsumer(AmqpOptionsPtr options, AmqpConsumerOptions own)
      : options_(std::move(options)), own_(std::move(own)) {
    if (own_.address.empty()) throw std::invalid_argument("address must not be empty");
  }

  [[nodiscard]] std::string kind() const override { return "amqp"; }
  [[nodiscard]] std::string address() const override {
    return transport::amqp::parse_broker_url(options_->url).shown();
  }

  [[nodiscard]] std::vector<IncomingMessage> fetch(std::size_t most,
                                                   const TransportCall& call) override {
    const std::lock_guard lock(calls_);
    if (!connection_ || connection_->lost()) {
      connection_.reset();
      auto connection = std::make_unique<ReceiverConnection>(*options_, own_.address, tags_);
      connection->open(call);
      connection_ = std::move(connection);
    }
    return connection_->receive(most, call);
  }

  void ack(std::span<const std::uint64_t> tags, const TransportCall& call) override {
    settle(tags, ReceiverConnection::Outcome::accept, call);
  }

  void give_back(std::span<const std::uint64_t> tags, const TransportCall& call) override {
    settle(tags, ReceiverConnection::Outcome::release, call);
  }

  void close() noexcept override {
    const std::lock_guard lock(calls_);
    connection_.reset();
  }

 private:
  void settle(std::span<const std::uint64_t> tags, ReceiverConnection::Outcome outcome,
              const TransportCall& call) {
    const std::lock_guard lock(calls_);
    if (connection_) connection_->settle(tags, outcome, call);
  }

  const AmqpOptionsPtr options_;
  const AmqpConsumerOptions own_;
  std::mutex calls_;  ///< One call at a time.
  std::atomic<std::uint64_t> tags_{0};
  std::unique_ptr<ReceiverConnection> connection_;
};

}  // namespace

Amqp::Amqp(AmqpOptions options)
    : options_(std::make_shared<const AmqpOptions>(std::move(options))) {
  transport::amqp::require_valid(*options_);
}

std::shared_ptr<Publisher> Amqp::publisher(AmqpPublisherOptions options) const {
  return std::make_shared<AmqpPublisher>(options_, std::move(options));
}

std::shared_ptr<Consumer> Amqp::consumer(AmqpConsumerOptions options) const {
  return std::make_shared<AmqpConsumer>(options_, std::move(options));
}

}  // namespace dovetail
