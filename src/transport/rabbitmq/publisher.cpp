#include "transport/rabbitmq/publisher.hpp"

#include "transport/cloud_events.hpp"
#include "transport/rabbitmq/message.hpp"

namespace dovetail::transport::rabbitmq {
namespace {

/// After so many messages, the thread reads what the broker has sent.
constexpr int messages_between_reads = 32;

}  // namespace

// --- the connection

PublishConnection::PublishConnection(StatePtr state, const RabbitMqPublisherOptions& options)
    : Connection(std::move(state)), options_(options) {
  select_confirms();
}

void PublishConnection::select_confirms() {
  amqp_confirm_select(state(), channel);
  require_reply(amqp_get_rpc_reply(state()), "confirms");
  last_tag_ = 0;
}

bool PublishConnection::publish(PublishRound& round, const TransportCall& call) {
  const auto begin = [&] {
    {
      std::lock_guard lock(mutex_);
      round_ = &round;
      source_ = call.source;
    }
    go_on();
  };
  return run(
      begin, [&] { return round.is_done(); }, call);
}

void PublishConnection::check(const TransportCall& call) {
  bool answered = false;
  const auto ask = [&] {
    amqp_basic_qos(state(), channel, 0, 0, 0);
    require_reply(amqp_get_rpc_reply(state()), "the broker did not answer");
    answered = true;
  };
  if (!run(
          ask, [&] { return answered; }, call))
    throw std::runtime_error(end_reason());
}

bool PublishConnection::has_more_work() const {
  return round_ != nullptr && round_->wants_to_send() && !blocked_;
}

void PublishConnection::go_on() {
  for (int sent = 1;; ++sent) {
    std::uint64_t tag = 0;
    std::size_t index = 0;
    {
      std::lock_guard lock(mutex_);
      if (!has_more_work()) return;
      tag = ++last_tag_;
      index = round_->next(tag);
    }
    send(tag, index);
    if (sent % messages_between_reads == 0) read_frames();
  }
}

void PublishConnection::send(std::uint64_t tag, std::size_t index) {
  const auto& message = round_->message(index);
  const OutgoingProperties properties(message, source_);
  if (auto problem = properties.problem()) {
    std::lock_guard lock(mutex_);
    --last_tag_;
    round_->refuse(tag, std::move(*problem));
    return;
  }
  require(amqp_basic_publish(state(), channel, bytes_of(options_.exchange),
                             bytes_of(round_->routing_key(index)), 1, 0, &properties.get(),
                             bytes_of(message.payload)),
          "the connection was lost");
}

void PublishConnection::on_content(const Content& content) {
  std::lock_guard lock(mutex_);
  if (content.returned && round_ != nullptr) round_->on_return(content);
}

void PublishConnection::on_method(const amqp_method_t& method) {
  if (method.id == AMQP_CHANNEL_CLOSE_METHOD) {
    reopen_channel(*static_cast<amqp_channel_close_t*>(method.decoded));
  }
  std::lock_guard lock(mutex_);
  if (round_ == nullptr) return;
  if (method.id == AMQP_BASIC_ACK_METHOD) {
    const auto& ack = *static_cast<amqp_basic_ack_t*>(method.decoded);
    round_->on_confirm(ack.delivery_tag, ack.multiple != 0, true);
  } else if (method.id == AMQP_BASIC_NACK_METHOD) {
    const auto& nack = *static_cast<amqp_basic_nack_t*>(method.decoded);
    round_->on_confirm(nack.delivery_tag, nack.multiple != 0, false);
  }
  if (round_->is_done()) changed_.notify_all();
}

/// The broker closes a channel for a message that it does not accept.
void PublishConnection::reopen_channel(const amqp_channel_close_t& close) {
  const BrokerError error{close.reply_code, std::string{view_of(close.reply_text)}};
  amqp_channel_close_ok_t answer{};
  require(amqp_send_method(state(), channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &answer), "channel");
  amqp_channel_open(state(), channel);
  require_reply(amqp_get_rpc_reply(state()), "channel");
  select_confirms();
  std::lock_guard lock(mutex_);
  if (round_ != nullptr) round_->on_channel_closed(error);
}

// --- the publisher

RabbitMqPublisher::RabbitMqPublisher(std::shared_ptr<const RabbitMqOptions> connection,
                                     RabbitMqPublisherOptions options)
    : connection_options_(std::move(connection)),
      options_(std::move(options)),
      links_(
          [login = connection_options_, publishing = options_] {
            auto made = std::make_shared<PublishConnection>(
                with_any_url(*login, [&](const auto& url) { return log_in(*login, url); }),
                publishing);
            made->start();
            return made;
          },
          patience(*connection_options_)) {
  if (options_.routing_key.empty()) throw std::invalid_argument("routing_key must not be empty");
  if (options_.exchange.size() > 127) throw std::invalid_argument("exchange: at most 127 bytes");
  (void)filled(options_.routing_key, Message{});  // throws for a wrong template
}

std::vector<PublishOutcome> RabbitMqPublisher::publish(std::span<const Message> messages,
                                                       const TransportCall& call) {
  auto connection = links_.open(call);
  PublishRound round(options_, messages);
  if (connection->publish(round, call)) return round.take_outcomes();
  const auto blocked = connection->blocked();
  if (!connection->is_open()) {
    round.give_up(connection->end_reason());
  } else if (blocked) {
    round.give_up("the broker blocks publishers: " + *blocked);
  } else if (call.stop.stop_requested()) {
    round.give_up("the publisher was stopped");
  } else {
    round.give_up("the broker did not answer in time");
    connection->abort("the broker did not answer in time");
  }
  return round.take_outcomes();
}

void RabbitMqPublisher::probe(const TransportCall& call) {
  if (const auto reason = blocked()) {
    throw std::runtime_error("the broker blocks publishers: " + *reason);
  }
  const auto connection = links_.open(call);
  connection->check(call);
}

std::optional<std::string> RabbitMqPublisher::blocked() const {
  return links_.first_of([](const PublishConnection& each) { return each.blocked(); });
}

}  // namespace dovetail::transport::rabbitmq
