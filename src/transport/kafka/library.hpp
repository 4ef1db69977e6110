// The handles of librdkafka with owners, and its configuration.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <string>

#include "dovetail/kafka.hpp"

namespace dovetail::transport::kafka {

struct Deleter {
  void operator()(rd_kafka_conf_t* handle) const { rd_kafka_conf_destroy(handle); }
  void operator()(rd_kafka_headers_t* handle) const { rd_kafka_headers_destroy(handle); }
  void operator()(rd_kafka_message_t* handle) const { rd_kafka_message_destroy(handle); }
  void operator()(rd_kafka_queue_t* handle) const { rd_kafka_queue_destroy(handle); }
  void operator()(rd_kafka_event_t* handle) const { rd_kafka_event_destroy(handle); }
  void operator()(rd_kafka_topic_partition_list_t* handle) const {
    rd_kafka_topic_partition_list_destroy(handle);
  }
  /// Without waiting for messages or for the group.
  void operator()(rd_kafka_t* handle) const {
    rd_kafka_purge(
        handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
    rd_kafka_destroy_flags(handle, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
  }
};

template <class Handle>
using Owned = std::unique_ptr<Handle, Deleter>;

/// The servers of a URL, `host:port,host:port`. Throws std::invalid_argument.
[[nodiscard]] std::string servers_in(const std::string& url);
/// The URL as it is shown.
[[nodiscard]] std::string shown_url(const KafkaOptions& options);

/// The configuration of all connections. Throws std::invalid_argument that names a property that
/// is not accepted, and std::runtime_error if the file of the password cannot be read.
[[nodiscard]] Owned<rd_kafka_conf_t> configuration(const KafkaOptions& options);
void set_property(rd_kafka_conf_t* conf, const std::string& name, const std::string& value);

/// Takes the configuration. Throws std::runtime_error.
[[nodiscard]] Owned<rd_kafka_t> make_handle(rd_kafka_type_t type, Owned<rd_kafka_conf_t> conf);

}  // namespace dovetail::transport::kafka
