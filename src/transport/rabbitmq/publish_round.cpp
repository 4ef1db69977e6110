#include "transport/rabbitmq/publish_round.hpp"

#include "transport/cloud_events.hpp"

namespace dovetail::transport::rabbitmq {
namespace {

constexpr std::size_t most_key_bytes = 255;

}  // namespace

PublishRound::PublishRound(const RabbitMqPublisherOptions& options,
                           std::span<const Message> messages)
    : messages_(messages), outcomes_(messages.size()) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    keys_.push_back(filled(options.routing_key, messages[i]));
    if (keys_.back().size() > most_key_bytes) {
      outcomes_[i] = {PublishResult::refused, "the routing key must not exceed 255 bytes"};
    } else {
      unsent_.push_back(i);
    }
  }
}

std::size_t PublishRound::next(std::uint64_t tag) {
  const auto index = unsent_.front();
  unsent_.pop_front();
  awaited_.emplace(tag, index);
  return index;
}

void PublishRound::refuse(std::uint64_t tag, std::string reason) {
  const auto awaited = awaited_.extract(tag);
  outcomes_[awaited.mapped()] = {PublishResult::refused, std::move(reason)};
}

void PublishRound::settle(std::size_t index, bool positive) {
  const auto returned = returned_.extract(index);
  if (returned) {
    outcomes_[index] = {PublishResult::rejected, returned.mapped()};
  } else if (positive) {
    outcomes_[index] = {PublishResult::confirmed};
  } else {
    outcomes_[index] = {PublishResult::rejected, "a queue did not accept the message (basic.nack)"};
  }
}

void PublishRound::on_confirm(std::uint64_t tag, bool multiple, bool positive) {
  const auto end = awaited_.upper_bound(tag);
  const auto begin = multiple ? awaited_.begin() : awaited_.lower_bound(tag);
  for (auto each = begin; each != end; ++each) settle(each->second, positive);
  awaited_.erase(begin, end);
}

void PublishRound::on_return(const Content& returned) {
  for (const auto& [tag, index] : awaited_) {
    if (messages_[index].id.to_string() != returned.message_id) continue;
    returned_[index] = "no queue receives the routing key " + keys_[index] + ": " +
                       std::to_string(returned.error.code) + " " + returned.error.words;
  }
}

void PublishRound::on_channel_closed(const BrokerError& error) {
  returned_.clear();
  if (awaited_.size() == 1) {
    const bool for_good = error.code == AMQP_PRECONDITION_FAILED;
    outcomes_[awaited_.begin()->second] = {
        for_good ? PublishResult::refused : PublishResult::rejected, error.words};
  } else {
    for (auto each = awaited_.rbegin(); each != awaited_.rend(); ++each) {
      unsent_.push_front(each->second);
    }
  }
  awaited_.clear();
  one_by_one_ = true;
}

void PublishRound::give_up(const std::string& reason) {
  for (const auto& [tag, index] : awaited_) outcomes_[index].reason = reason;
  for (const auto index : unsent_) outcomes_[index].reason = reason;
}

}  // namespace dovetail::transport::rabbitmq
