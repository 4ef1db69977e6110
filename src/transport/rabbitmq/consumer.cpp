#include "transport/rabbitmq/consumer.hpp"

#include <algorithm>

#include "transport/rabbitmq/message.hpp"
#include "transport/rabbitmq/publisher.hpp"

namespace dovetail::transport::rabbitmq {
namespace {

/// A tag is the number of its connection, and the broker's number of the delivery.
constexpr unsigned delivery_bits = 44;
constexpr std::uint64_t delivery_mask = (std::uint64_t{1} << delivery_bits) - 1;

}  // namespace

// --- the connection

ConsumeConnection::ConsumeConnection(StatePtr state, const RabbitMqConsumerOptions& options)
    : Connection(std::move(state)) {
  amqp_basic_qos(this->state(), channel, 0, static_cast<std::uint16_t>(options.prefetch), 0);
  require_reply(amqp_get_rpc_reply(this->state()), "prefetch");
  amqp_basic_consume(this->state(), channel, bytes_of(options.queue), amqp_empty_bytes, 0, 0, 0,
                     amqp_empty_table);
  require_reply(amqp_get_rpc_reply(this->state()), "the queue " + options.queue);
}

std::vector<IncomingMessage> ConsumeConnection::fetch(std::size_t most, const TransportCall& call) {
  bool open = true;
  std::vector<IncomingMessage> messages;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, call.stop, call.deadline,
                        [&] { return !arrived_.empty() || has_ended(); });
    open = !has_ended();
    while (open && !arrived_.empty() && messages.size() < most) {
      messages.push_back(std::move(arrived_.front()));
      arrived_.pop_front();
    }
  }
  if (!open) throw std::runtime_error(end_reason());
  return messages;
}

void ConsumeConnection::answer(std::span<const std::uint64_t> tags, bool stored,
                               const TransportCall& call) {
  bool sent = false;
  const auto send = [&] {
    for (const auto tag : tags) {
      require(stored ? amqp_basic_ack(state(), channel, tag, 0)
                     : amqp_basic_nack(state(), channel, tag, 0, 1),
              "the connection was lost");
    }
    sent = true;
  };
  if (!run(
          send, [&] { return sent; }, call))
    throw std::runtime_error(end_reason());
}

void ConsumeConnection::on_method(const amqp_method_t& method) {
  if (method.id == AMQP_BASIC_CANCEL_METHOD) throw std::runtime_error("the queue was deleted");
  if (method.id == AMQP_CHANNEL_CLOSE_METHOD) {
    const auto& close = *static_cast<amqp_channel_close_t*>(method.decoded);
    throw std::runtime_error(std::string{view_of(close.reply_text)});
  }
}

void ConsumeConnection::on_content(const Content& content) {
  auto incoming = incoming_message(content);
  incoming.tag = content.delivery_tag;
  std::lock_guard lock(mutex_);
  arrived_.push_back(std::move(incoming));
  if (arrived_.size() == 1) changed_.notify_all();
}

// --- the consumer

RabbitMqConsumer::RabbitMqConsumer(std::shared_ptr<const RabbitMqOptions> connection,
                                   RabbitMqConsumerOptions options)
    : connection_options_(std::move(connection)),
      options_(std::move(options)),
      link_(
          [login = connection_options_, consuming = options_] {
            auto made = std::make_shared<ConsumeConnection>(
                with_any_url(*login, [&](const auto& url) { return log_in(*login, url); }),
                consuming);
            made->start();
            return made;
          },
          patience(*connection_options_)) {
  if (options_.queue.empty() || options_.queue.size() > 255) {
    throw std::invalid_argument("queue must have 1 to 255 bytes");
  }
  if (options_.prefetch < 1 || options_.prefetch > 65'535) {
    throw std::out_of_range("prefetch must be 1 to 65,535");
  }
}

std::vector<IncomingMessage> RabbitMqConsumer::fetch(std::size_t most, const TransportCall& call) {
  std::lock_guard lock(turn_);
  const auto connection = link_.open(call);
  if (connection != current_) {
    current_ = connection;
    ++generation_;
  }
  auto messages = connection->fetch(most, call);
  for (auto& message : messages) message.tag |= generation_ << delivery_bits;
  return messages;
}

void RabbitMqConsumer::ack(std::span<const std::uint64_t> tags, const TransportCall& call) {
  answer(tags, true, call);
}

void RabbitMqConsumer::give_back(std::span<const std::uint64_t> tags, const TransportCall& call) {
  answer(tags, false, call);
}

void RabbitMqConsumer::answer(std::span<const std::uint64_t> tags, bool stored,
                              const TransportCall& call) {
  std::lock_guard lock(turn_);
  std::vector<std::uint64_t> own;
  for (const auto tag : tags) {
    if (tag >> delivery_bits == generation_) own.push_back(tag & delivery_mask);
  }
  if (!own.empty() && current_ && current_->is_open()) current_->answer(own, stored, call);
}

void RabbitMqConsumer::close() noexcept {
  std::lock_guard lock(turn_);
  current_.reset();
  link_.drop();
}

}  // namespace dovetail::transport::rabbitmq
