#include "transport/kafka/group_member.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "transport/kafka/mapping.hpp"

namespace dovetail::transport::kafka {
namespace {

constexpr std::int64_t longest_wait_ms = 100;
constexpr std::chrono::seconds longest_leave{2};

int wait_of(const TransportCall& call) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(call.deadline -
                                                                 std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, longest_wait_ms));
}

bool is_over(const TransportCall& call) {
  return call.stop.stop_requested() || std::chrono::steady_clock::now() >= call.deadline;
}

void require_no_error(rd_kafka_resp_err_t error) {
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
    throw std::runtime_error(std::string{"Kafka: "} + rd_kafka_err2str(error));
}

}  // namespace

void OpenOffsets::ack(std::int64_t offset) {
  const auto found = open_.find(offset);
  if (found != open_.end()) found->second = true;
}

std::optional<std::int64_t> OpenOffsets::take_commit() {
  std::optional<std::int64_t> next;
  while (!open_.empty() && open_.begin()->second) {
    next = open_.begin()->first + 1;
    open_.erase(open_.begin());
  }
  return next;
}

GroupMember::GroupMember(const KafkaOptions& options, const KafkaConsumerOptions& own,
                         std::uint64_t& tags)
    : tags_(tags) {
  auto conf = configuration(options);
  set_property(conf.get(), "group.id", own.group);
  set_property(conf.get(), "enable.auto.commit", "false");
  set_property(conf.get(), "enable.auto.offset.store", "false");
  set_property(conf.get(), "auto.offset.reset", "earliest");
  set_property(conf.get(), "partition.assignment.strategy", "range,roundrobin");
  rd_kafka_conf_set_opaque(conf.get(), this);
  rd_kafka_conf_set_error_cb(conf.get(), &GroupMember::on_error);
  rd_kafka_conf_set_rebalance_cb(conf.get(), &GroupMember::on_rebalance);
  handle_ = make_handle(RD_KAFKA_CONSUMER, std::move(conf));
  rd_kafka_poll_set_consumer(handle_.get());
  commits_.reset(rd_kafka_queue_new(handle_.get()));
  const Owned<rd_kafka_topic_partition_list_t> topics(
      rd_kafka_topic_partition_list_new(static_cast<int>(own.topics.size())));
  for (const auto& topic : own.topics)
    rd_kafka_topic_partition_list_add(topics.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
  require_no_error(rd_kafka_subscribe(handle_.get(), topics.get()));
}

GroupMember::~GroupMember() {
  const Owned<rd_kafka_queue_t> last(rd_kafka_queue_new(handle_.get()));
  if (auto* const error = rd_kafka_consumer_close_queue(handle_.get(), last.get())) {
    rd_kafka_error_destroy(error);
    return;
  }
  const auto give_up_at = std::chrono::steady_clock::now() + longest_leave;
  while (rd_kafka_consumer_closed(handle_.get()) == 0 &&
         std::chrono::steady_clock::now() < give_up_at) {
    rd_kafka_queue_poll_callback(last.get(), static_cast<int>(longest_wait_ms));
  }
}

void GroupMember::on_error(rd_kafka_t* /*handle*/, int error, const char* reason, void* self) {
  const bool is_down = error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
                       error == RD_KAFKA_RESP_ERR__AUTHENTICATION ||
                       error == RD_KAFKA_RESP_ERR__FATAL;
  if (is_down) static_cast<GroupMember*>(self)->failure_ = reason;
}

void GroupMember::on_rebalance(rd_kafka_t* handle, rd_kafka_resp_err_t error,
                               rd_kafka_topic_partition_list_t* partitions, void* self) {
  static_cast<GroupMember*>(self)->forget_partitions();
  const bool has_new = error == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
  rd_kafka_assign(handle, has_new ? partitions : nullptr);
}

/// Another member may have them now. Messages that are not committed are delivered again.
void GroupMember::forget_partitions() {
  places_.clear();
  open_.clear();
}

Owned<rd_kafka_message_t> GroupMember::poll(int limit) {
  Owned<rd_kafka_message_t> message(rd_kafka_consumer_poll(handle_.get(), limit));
  if (!message || message->err == RD_KAFKA_RESP_ERR_NO_ERROR) return message;
  constexpr std::array passing{RD_KAFKA_RESP_ERR__PARTITION_EOF,
                               RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
                               RD_KAFKA_RESP_ERR__TRANSPORT};
  if (std::ranges::find(passing, message->err) == passing.end())
    throw std::runtime_error(std::string{"Kafka: "} + rd_kafka_message_errstr(message.get()));
  return nullptr;
}

IncomingMessage GroupMember::noted(const rd_kafka_message_t& message) {
  auto incoming = from_kafka(message);
  incoming.tag = ++tags_;
  const Partition partition{rd_kafka_topic_name(message.rkt), message.partition};
  open_[partition].add(message.offset);
  places_.emplace(incoming.tag, Place{partition, message.offset});
  return incoming;
}

std::vector<IncomingMessage> GroupMember::receive(std::size_t most, const TransportCall& call) {
  std::vector<IncomingMessage> messages;
  failure_.clear();
  while (messages.size() < most) {
    const auto message = poll(messages.empty() ? wait_of(call) : 0);
    if (message) {
      messages.push_back(noted(*message));
    } else if (!messages.empty() || is_over(call)) {
      break;
    } else if (!failure_.empty()) {
      throw std::runtime_error("Kafka: " + failure_);
    }
  }
  return messages;
}

void GroupMember::ack(std::span<const std::uint64_t> tags, const TransportCall& call) {
  std::map<Partition, std::int64_t> offsets;
  std::set<Partition> touched;
  for (const auto tag : tags) {
    const auto node = places_.extract(tag);
    if (node.empty()) continue;
    open_[node.mapped().partition].ack(node.mapped().offset);
    touched.insert(node.mapped().partition);
  }
  for (const auto& partition : touched) {
    if (const auto offset = open_[partition].take_commit()) offsets.emplace(partition, *offset);
  }
  if (!offsets.empty()) commit(offsets, call);
}

void GroupMember::commit(const std::map<Partition, std::int64_t>& offsets,
                         const TransportCall& call) {
  const Owned<rd_kafka_topic_partition_list_t> list(
      rd_kafka_topic_partition_list_new(static_cast<int>(offsets.size())));
  for (const auto& [partition, offset] : offsets) {
    rd_kafka_topic_partition_list_add(list.get(), partition.first.c_str(), partition.second)
        ->offset = offset;
  }
  // Without an answer, the messages are delivered again after a rebalance, and the inbox knows
  // them.
  if (rd_kafka_commit_queue(handle_.get(), list.get(), commits_.get(), nullptr, nullptr) !=
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    return;
  }
  while (!is_over(call)) {
    const Owned<rd_kafka_event_t> event(rd_kafka_queue_poll(commits_.get(), wait_of(call)));
    if (event) return;
  }
}

void GroupMember::give_back(std::span<const std::uint64_t> tags, const TransportCall& call) {
  std::map<Partition, std::int64_t> first;
  for (const auto tag : tags) {
    const auto node = places_.extract(tag);
    if (node.empty()) continue;
    const auto [found, is_new] = first.emplace(node.mapped().partition, node.mapped().offset);
    if (!is_new) found->second = std::min(found->second, node.mapped().offset);
  }
  if (first.empty()) return;
  const Owned<rd_kafka_topic_partition_list_t> list(
      rd_kafka_topic_partition_list_new(static_cast<int>(first.size())));
  for (const auto& [partition, offset] : first) {
    rd_kafka_topic_partition_list_add(list.get(), partition.first.c_str(), partition.second)
        ->offset = offset;
    open_[partition].forget_from(offset);
    std::erase_if(places_, [&of = partition, from = offset](const auto& place) {
      return place.second.partition == of && place.second.offset >= from;
    });
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(call.deadline -
                                                                 std::chrono::steady_clock::now());
  const auto limit = static_cast<int>(std::clamp<std::int64_t>(left.count(), 1, 10'000));
  rd_kafka_error_t* const error = rd_kafka_seek_partitions(handle_.get(), list.get(), limit);
  if (error == nullptr) return;
  const std::string reason = rd_kafka_error_string(error);
  rd_kafka_error_destroy(error);
  throw std::runtime_error("Kafka: " + reason);
}

}  // namespace dovetail::transport::kafka
