// The messages of one call of publish(), and what became of them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dovetail/rabbitmq.hpp"
#include "transport/rabbitmq/content.hpp"

namespace dovetail::transport::rabbitmq {

class PublishRound {
 public:
  PublishRound(const RabbitMqPublisherOptions& options, std::span<const Message> messages);

  /// The messages that are to be sent. After a message has closed the channel, one at a time is
  /// sent, so that the broker's error is that of the message.
  [[nodiscard]] bool wants_to_send() const {
    return !unsent_.empty() && (!one_by_one_ || awaited_.empty());
  }
  [[nodiscard]] bool is_done() const { return unsent_.empty() && awaited_.empty(); }

  /// The next message to send. It is awaited under the tag from now on.
  std::size_t next(std::uint64_t tag);
  void refuse(std::uint64_t tag, std::string reason);

  void on_confirm(std::uint64_t tag, bool multiple, bool positive);
  void on_return(const Content& returned);
  void on_channel_closed(const BrokerError& error);
  /// The messages without an answer are unavailable.
  void give_up(const std::string& reason);

  [[nodiscard]] const Message& message(std::size_t index) const { return messages_[index]; }
  [[nodiscard]] const std::string& routing_key(std::size_t index) const { return keys_[index]; }
  [[nodiscard]] std::vector<PublishOutcome> take_outcomes() { return std::move(outcomes_); }

 private:
  void settle(std::size_t index, bool positive);

  const std::span<const Message> messages_;
  std::vector<std::string> keys_;
  std::vector<PublishOutcome> outcomes_;
  std::deque<std::size_t> unsent_;
  std::map<std::uint64_t, std::size_t> awaited_;  ///< By their delivery tags.
  std::map<std::size_t, std::string> returned_;   ///< Why no queue received them.
  bool one_by_one_ = false;
};

}  // namespace dovetail::transport::rabbitmq
