#include "transport/rabbitmq/library.hpp"

namespace dovetail::transport::rabbitmq {

std::string problem_of(const amqp_rpc_reply_t& reply) {
  switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL:
      return {};
    case AMQP_RESPONSE_LIBRARY_EXCEPTION:
      return amqp_error_string2(reply.library_error);
    case AMQP_RESPONSE_SERVER_EXCEPTION:
      if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        return std::string{
            view_of(static_cast<amqp_connection_close_t*>(reply.reply.decoded)->reply_text)};
      }
      if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        return std::string{
            view_of(static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_text)};
      }
      break;
    default:
      break;
  }
  return "the broker's answer is missing";
}

void require_reply(const amqp_rpc_reply_t& reply, const std::string& step) {
  const auto problem = problem_of(reply);
  if (!problem.empty()) throw std::runtime_error(step + ": " + problem);
}

}  // namespace dovetail::transport::rabbitmq
