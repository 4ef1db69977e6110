#include "transport/kafka/producer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

#include "transport/cloud_events.hpp"
#include "transport/kafka/mapping.hpp"

namespace dovetail::transport::kafka {
namespace {

constexpr int poll_ms = 100;
constexpr std::chrono::milliseconds pause_while_full{10};

bool has_ended(const TransportCall& call) {
  return call.stop.stop_requested() || std::chrono::steady_clock::now() >= call.deadline;
}

using Parts = std::array<rd_kafka_vu_t, 6>;

/// The arguments of rd_kafka_produceva(). The payload is copied.
Parts parts_of(const Message& message, const std::string& topic, rd_kafka_headers_t* headers,
               void* opaque) {
  Parts parts{};
  parts[0].vtype = RD_KAFKA_VTYPE_TOPIC;
  parts[0].u.cstr = topic.c_str();
  parts[1].vtype = RD_KAFKA_VTYPE_VALUE;
  parts[1].u.mem = {const_cast<char*>(message.payload.data()), message.payload.size()};
  parts[2].vtype = RD_KAFKA_VTYPE_KEY;
  if (message.stream)
    parts[2].u.mem = {const_cast<char*>(message.stream->data()), message.stream->size()};
  parts[3].vtype = RD_KAFKA_VTYPE_HEADERS;
  parts[3].u.headers = headers;
  parts[4].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
  parts[4].u.i = RD_KAFKA_MSG_F_COPY;
  parts[5].vtype = RD_KAFKA_VTYPE_OPAQUE;
  parts[5].u.ptr = opaque;
  return parts;
}

rd_kafka_resp_err_t hand_over(rd_kafka_t* handle, const Parts& parts) {
  rd_kafka_error_t* const error = rd_kafka_produceva(handle, parts.data(), parts.size());
  if (error == nullptr) return RD_KAFKA_RESP_ERR_NO_ERROR;
  const auto code = rd_kafka_error_code(error);
  rd_kafka_error_destroy(error);
  return code;
}

}  // namespace

Producer::Producer(const KafkaOptions& options) {
  auto conf = configuration(options);
  set_property(conf.get(), "enable.idempotence", "true");
  set_property(conf.get(), "linger.ms", "0");
  set_property(conf.get(), "message.timeout.ms", "600000");  // the deadline of the call ends it
  rd_kafka_conf_set_dr_msg_cb(conf.get(), &Producer::on_report);
  handle_ = make_handle(RD_KAFKA_PRODUCER, std::move(conf));
  poller_ = std::jthread([handle = handle_.get()](const std::stop_token& stop) {
    while (!stop.stop_requested()) rd_kafka_poll(handle, poll_ms);
    rd_kafka_purge(handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_flush(handle, poll_ms);  // the last reports
  });
}

void Producer::on_report(rd_kafka_t* /*handle*/, const rd_kafka_message_t* message,
                         void* /*opaque*/) {
  const std::unique_ptr<Pending> pending(static_cast<Pending*>(message->_private));
  auto& [producer, batch, index] = *pending;
  const std::lock_guard lock(producer->mutex_);
  batch->outcomes[index] = outcome_of(message->err);
  if (--batch->missing == 0) producer->reported_.notify_all();
}

std::optional<PublishOutcome> Producer::produce(const Message& message, const std::string& topic,
                                                const TransportCall& call,
                                                std::unique_ptr<Pending> pending) {
  if (!is_topic_name(topic)) {
    return PublishOutcome{.result = PublishResult::refused,
                          .reason = "Kafka does not allow the topic " + topic};
  }
  const auto source = call.source.empty() ? std::string_view{"dovetail"} : call.source;
  while (true) {
    auto headers = headers_of(message, source);
    const auto error =
        hand_over(handle_.get(), parts_of(message, topic, headers.get(), pending.get()));
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
      static_cast<void>(headers.release());  // the message has them now
      static_cast<void>(pending.release());
      return std::nullopt;
    }
    if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) return outcome_of(error);
    if (has_ended(call)) return PublishOutcome{};
    std::this_thread::sleep_for(pause_while_full);
  }
}

std::vector<PublishOutcome> Producer::send(std::span<const Message> messages,
                                           const std::string& topic, const TransportCall& call) {
  const auto batch = std::make_shared<Batch>();
  batch->outcomes.resize(messages.size());
  batch->missing = messages.size();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto outcome = produce(messages[i], filled(topic, messages[i]), call,
                           std::make_unique<Pending>(Pending{this, batch, i}));
    if (!outcome) continue;
    const std::lock_guard lock(mutex_);
    batch->outcomes[i] = *std::move(outcome);
    --batch->missing;
  }
  std::unique_lock lock(mutex_);
  await(lock, *batch, call);
  auto outcomes = batch->outcomes;
  for (auto& each : outcomes) {
    if (each.result == PublishResult::unavailable && each.reason.empty())
      each.reason = "Kafka gave no report in time";
  }
  return outcomes;
}

void Producer::await(std::unique_lock<std::mutex>& lock, const Batch& batch,
                     const TransportCall& call) {
  reported_.wait_until(lock, call.stop, call.deadline, [&] { return batch.missing == 0; });
  const auto fatal = rd_kafka_fatal_error(handle_.get(), nullptr, 0);
  if (batch.missing > 0 || fatal != RD_KAFKA_RESP_ERR_NO_ERROR) is_spent_ = true;
}

void Producer::require_cluster(const TransportCall& call) {
  const struct rd_kafka_metadata* found = nullptr;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(call.deadline -
                                                                 std::chrono::steady_clock::now());
  const auto limit = static_cast<int>(std::clamp<std::int64_t>(left.count(), 1, 10'000));
  const auto error = rd_kafka_metadata(handle_.get(), 0, nullptr, &found, limit);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
    throw std::runtime_error(std::string{"Kafka: "} + rd_kafka_err2str(error));
  rd_kafka_metadata_destroy(found);
}

}  // namespace dovetail::transport::kafka
