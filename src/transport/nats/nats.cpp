#include "dovetail/nats.hpp"

#include "transport/nats/consumer.hpp"
#include "transport/nats/publisher.hpp"

namespace dovetail {

Nats::Nats(NatsOptions options) {
  transport::nats::require_valid(options);
  options_ = std::make_shared<const NatsOptions>(std::move(options));
}

Nats::~Nats() = default;
Nats::Nats(Nats&&) noexcept = default;
Nats& Nats::operator=(Nats&&) noexcept = default;

std::shared_ptr<Publisher> Nats::publisher(NatsPublisherOptions options) const {
  return std::make_shared<transport::nats::NatsPublisher>(options_, std::move(options));
}

std::shared_ptr<Consumer> Nats::consumer(NatsConsumerOptions options) const {
  return std::make_shared<transport::nats::NatsConsumer>(options_, std::move(options));
}

}  // namespace dovetail
