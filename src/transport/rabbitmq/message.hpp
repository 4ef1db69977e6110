// Messages of RabbitMQ, to and from messages of Dovetail.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/transport.hpp"
#include "transport/rabbitmq/content.hpp"

namespace dovetail::transport::rabbitmq {

/// The properties of a message, with the texts that they refer to.
class OutgoingProperties {
 public:
  /// `source` is that of the CloudEvent. Empty: `dovetail`. The message must outlive this.
  OutgoingProperties(const Message& message, std::string_view source);
  OutgoingProperties(const OutgoingProperties&) = delete;
  OutgoingProperties& operator=(const OutgoingProperties&) = delete;

  [[nodiscard]] const amqp_basic_properties_t& get() const { return properties_; }
  /// Why the broker could not read the message. Absent: it can.
  [[nodiscard]] std::optional<std::string> problem() const;

 private:
  std::string id_;
  Headers headers_;
  std::vector<amqp_table_entry_t> entries_;
  amqp_basic_properties_t properties_{};
};

/// The message without its tag.
IncomingMessage incoming_message(Content content);

}  // namespace dovetail::transport::rabbitmq
