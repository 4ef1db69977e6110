#include "transport/kafka/mapping.hpp"

#include <algorithm>
#include <array>

#include "transport/cloud_events.hpp"

namespace dovetail::transport::kafka {
namespace {

const HeaderRules kafka_rules{.prefix = "ce_", .percent_encode = false};

Headers headers_in(const rd_kafka_message_t& message) {
  Headers headers;
  rd_kafka_headers_t* list = nullptr;
  if (rd_kafka_message_headers(&message, &list) != RD_KAFKA_RESP_ERR_NO_ERROR) return headers;
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0;
       rd_kafka_header_get_all(list, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++i) {
    headers.insert_or_assign(name, std::string(static_cast<const char*>(value), size));
  }
  return headers;
}

template <std::size_t count>
bool is_one_of(rd_kafka_resp_err_t error, const std::array<rd_kafka_resp_err_t, count>& list) {
  return std::ranges::find(list, error) != list.end();
}

PublishResult result_of(rd_kafka_resp_err_t error) {
  constexpr std::array final_ones{RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                                  RD_KAFKA_RESP_ERR_INVALID_MSG, RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE,
                                  RD_KAFKA_RESP_ERR_INVALID_RECORD,
                                  RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION};
  constexpr std::array of_the_cluster{RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
                                      RD_KAFKA_RESP_ERR__TRANSPORT,
                                      RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN,
                                      RD_KAFKA_RESP_ERR__PURGE_QUEUE,
                                      RD_KAFKA_RESP_ERR__PURGE_INFLIGHT,
                                      RD_KAFKA_RESP_ERR__AUTHENTICATION,
                                      RD_KAFKA_RESP_ERR__SSL,
                                      RD_KAFKA_RESP_ERR__FATAL,
                                      RD_KAFKA_RESP_ERR__DESTROY,
                                      RD_KAFKA_RESP_ERR__TIMED_OUT};
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return PublishResult::confirmed;
  if (is_one_of(error, final_ones)) return PublishResult::refused;
  return is_one_of(error, of_the_cluster) ? PublishResult::unavailable : PublishResult::rejected;
}

}  // namespace

Owned<rd_kafka_headers_t> headers_of(const Message& message, std::string_view source) {
  const auto headers = cloud_event_headers(message, source, kafka_rules);
  Owned<rd_kafka_headers_t> list(rd_kafka_headers_new(headers.size()));
  for (const auto& [name, value] : headers) {
    rd_kafka_header_add(list.get(), name.data(), static_cast<ssize_t>(name.size()), value.data(),
                        static_cast<ssize_t>(value.size()));
  }
  return list;
}

IncomingMessage from_kafka(const rd_kafka_message_t& given) {
  IncomingMessage message;
  read_cloud_event(headers_in(given), message, kafka_rules);
  const std::string topic = rd_kafka_topic_name(given.rkt);
  if (message.topic.empty()) message.topic = topic;
  if (message.id.empty()) {
    message.id = topic + "/" + std::to_string(given.partition) + "/" + std::to_string(given.offset);
  }
  if (given.payload != nullptr)
    message.payload.assign(static_cast<const char*>(given.payload), given.len);
  return message;
}

PublishOutcome outcome_of(rd_kafka_resp_err_t error) {
  const auto result = result_of(error);
  if (result == PublishResult::confirmed) return {.result = result};
  return {.result = result, .reason = std::string{"Kafka: "} + rd_kafka_err2str(error)};
}

bool is_topic_name(std::string_view name) {
  constexpr std::size_t most = 249;
  return !name.empty() && name.size() <= most && name != "." && name != ".." &&
         name.find_first_not_of(
             "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
             std::string_view::npos;
}

}  // namespace dovetail::transport::kafka
