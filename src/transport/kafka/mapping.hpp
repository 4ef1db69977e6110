// Messages of Dovetail as messages of Kafka, by the Kafka binding of CloudEvents.
#pragma once

#include <string>
#include <string_view>

#include "dovetail/transport.hpp"
#include "transport/kafka/library.hpp"

namespace dovetail::transport::kafka {

[[nodiscard]] Owned<rd_kafka_headers_t> headers_of(const Message& message, std::string_view source);

/// A message that is no CloudEvent has the id `topic/partition/offset` and the topic of Kafka.
[[nodiscard]] IncomingMessage from_kafka(const rd_kafka_message_t& message);

/// What an error of a delivery report means.
[[nodiscard]] PublishOutcome outcome_of(rd_kafka_resp_err_t error);

/// Whether Kafka accepts it as the name of a topic.
[[nodiscard]] bool is_topic_name(std::string_view name);

}  // namespace dovetail::transport::kafka
