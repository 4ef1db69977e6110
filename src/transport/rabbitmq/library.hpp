// The types of rabbitmq-c with owners.
#pragma once

#include <amqp.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dovetail::transport::rabbitmq {

inline amqp_bytes_t bytes_of(std::string_view text) {
  // rabbitmq-c does not change what it sends.
  return {.len = text.size(), .bytes = const_cast<char*>(text.data())};
}

inline std::string_view view_of(const amqp_bytes_t& bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

inline timeval timeval_of(std::chrono::milliseconds time) {
  return {.tv_sec = static_cast<time_t>(time.count() / 1000),
          .tv_usec = static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

/// Throws std::runtime_error for a negative status.
inline void require(int status, const std::string& step) {
  if (status < 0) throw std::runtime_error(step + ": " + amqp_error_string2(status));
}

/// An error that the broker sent: `NOT_FOUND - no queue 'a'`.
struct BrokerError {
  int code = 0;
  std::string words{};
};

/// The words of a failed call. Empty: it did not fail.
std::string problem_of(const amqp_rpc_reply_t& reply);

/// Throws std::runtime_error with the broker's words if the last call failed.
void require_reply(const amqp_rpc_reply_t& reply, const std::string& step);

}  // namespace dovetail::transport::rabbitmq
