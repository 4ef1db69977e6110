#include "dovetail/rabbitmq.hpp"

#include "transport/rabbitmq/consumer.hpp"
#include "transport/rabbitmq/publisher.hpp"

namespace dovetail {

RabbitMq::RabbitMq(RabbitMqOptions options) {
  transport::rabbitmq::require_valid(options);
  options_ = std::make_shared<const RabbitMqOptions>(std::move(options));
}

RabbitMq::~RabbitMq() = default;
RabbitMq::RabbitMq(RabbitMq&&) noexcept = default;
RabbitMq& RabbitMq::operator=(RabbitMq&&) noexcept = default;

std::shared_ptr<Publisher> RabbitMq::publisher(RabbitMqPublisherOptions options) const {
  return std::make_shared<transport::rabbitmq::RabbitMqPublisher>(options_, std::move(options));
}

std::shared_ptr<Consumer> RabbitMq::consumer(RabbitMqConsumerOptions options) const {
  return std::make_shared<transport::rabbitmq::RabbitMqConsumer>(options_, std::move(options));
}

}  // namespace dovetail
