// Messages that arrive in several frames: a method, properties and the parts of the body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dovetail/queue.hpp"
#include "transport/rabbitmq/library.hpp"

namespace dovetail::transport::rabbitmq {

/// A message that was delivered, or one that was returned because no queue receives it.
struct Content {
  bool returned = false;
  BrokerError error{};  ///< Why it was returned.
  std::uint64_t delivery_tag = 0;
  std::string message_id{};
  std::string correlation_id{};
  Headers headers{};
  std::string body{};
};

class ContentReader {
 public:
  /// Takes a frame. Returns a message when it is complete.
  std::optional<Content> take(const amqp_frame_t& frame);

 private:
  void begin(const amqp_method_t& method);
  void read_properties(const amqp_basic_properties_t& properties);

  Content content_;
  std::uint64_t missing_ = 0;
};

}  // namespace dovetail::transport::rabbitmq
