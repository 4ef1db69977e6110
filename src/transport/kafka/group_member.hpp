// A member of a consumer group: it receives messages, and commits offsets.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "transport/kafka/library.hpp"

namespace dovetail::transport::kafka {

/// The messages of one partition that were delivered and not committed, in their order.
class OpenOffsets {
 public:
  void add(std::int64_t offset) { open_.emplace(offset, false); }
  void ack(std::int64_t offset);
  /// Forgets this message and all after it.
  void forget_from(std::int64_t offset) { open_.erase(open_.lower_bound(offset), open_.end()); }
  /// The offset to commit, if it has changed: all messages before it are acknowledged.
  [[nodiscard]] std::optional<std::int64_t> take_commit();

 private:
  std::map<std::int64_t, bool> open_;  ///< The value: acknowledged.
};

class GroupMember {
 public:
  /// `tags` numbers the messages of all members of a consumer.
  GroupMember(const KafkaOptions& options, const KafkaConsumerOptions& own, std::uint64_t& tags);
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;
  /// Leaves the group, so that others get its partitions at once. Waits for 2 s at most.
  ~GroupMember();

  /// Throws std::runtime_error if the cluster is down.
  [[nodiscard]] std::vector<IncomingMessage> receive(std::size_t most, const TransportCall& call);
  void ack(std::span<const std::uint64_t> tags, const TransportCall& call);
  void give_back(std::span<const std::uint64_t> tags, const TransportCall& call);

 private:
  using Partition = std::pair<std::string, std::int32_t>;
  struct Place {
    Partition partition{};
    std::int64_t offset = 0;
  };

  /// The next message, or null.
  [[nodiscard]] Owned<rd_kafka_message_t> poll(int limit);
  IncomingMessage noted(const rd_kafka_message_t& message);
  void commit(const std::map<Partition, std::int64_t>& offsets, const TransportCall& call);
  void forget_partitions();

  static void on_error(rd_kafka_t* handle, int error, const char* reason, void* self);
  static void on_rebalance(rd_kafka_t* handle, rd_kafka_resp_err_t error,
                           rd_kafka_topic_partition_list_t* partitions, void* self);

  std::uint64_t& tags_;
  std::map<std::uint64_t, Place> places_;
  std::map<Partition, OpenOffsets> open_;
  std::string failure_;  ///< Why the cluster is down.
  Owned<rd_kafka_t> handle_;
  Owned<rd_kafka_queue_t> commits_;
};

}  // namespace dovetail::transport::kafka
