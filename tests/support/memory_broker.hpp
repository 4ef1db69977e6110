// A broker in memory: a Publisher and a Consumer, and what a test makes them do.
//
// Threads: from any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "dovetail/transport.hpp"
#include "transport/cloud_events.hpp"

namespace dovetail::testing {

/// A message that the broker has stored.
struct BrokerMessage {
  std::string payload;
  Headers headers;
  std::string topic;
};

class MemoryBroker {
 public:
  // --- what a test makes it do

  void set_down(bool down) {
    change([&] { down_ = down; });
  }
  void set_blocked(std::optional<std::string> reason) {
    change([&] { blocked_ = std::move(reason); });
  }
  /// Calls of publish() wait until it is false.
  void set_held(bool held) {
    change([&] { held_ = held; });
  }
  /// The answer to each message. Only confirmed messages are stored.
  void set_answer(std::function<PublishOutcome(const Message&)> answer) {
    change([&] { answer_ = std::move(answer); });
  }
  /// Called before each ack.
  void on_ack(std::function<void(std::span<const std::uint64_t>)> call) {
    change([&] { on_ack_ = std::move(call); });
  }
  /// A message for the Consumer. The tag of `message` is replaced.
  void put(IncomingMessage message) {
    change([&] { waiting_.push_back(std::move(message)); });
  }

  // --- what happened

  [[nodiscard]] std::vector<BrokerMessage> stored() const {
    return look([&] { return stored_; });
  }
  [[nodiscard]] std::vector<std::string> payloads() const {
    std::vector<std::string> all;
    for (const auto& each : stored()) all.push_back(each.payload);
    return all;
  }
  [[nodiscard]] std::size_t calls() const {
    return look([&] { return calls_; });
  }
  [[nodiscard]] std::size_t probes() const {
    return look([&] { return probes_; });
  }
  [[nodiscard]] std::size_t in_flight() const {
    return look([&] { return in_flight_; });
  }
  [[nodiscard]] std::size_t most_in_flight() const {
    return look([&] { return most_in_flight_; });
  }
  [[nodiscard]] bool mixed_a_stream() const {
    return look([&] { return mixed_a_stream_; });
  }
  [[nodiscard]] std::size_t acked() const {
    return look([&] { return acked_; });
  }
  [[nodiscard]] std::size_t returned() const {
    return look([&] { return returned_; });
  }
  [[nodiscard]] std::size_t unacked() const {
    return look([&] { return waiting_.size() + delivered_.size(); });
  }

  // --- the Publisher

  std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                      const TransportCall& call) {
    std::unique_lock lock(mutex_);
    ++calls_;
    note_streams(messages);
    in_flight_ += messages.size();
    most_in_flight_ = std::max(most_in_flight_, in_flight_);
    changed_.wait_until(lock, call.stop, call.deadline, [&] { return !held_; });
    in_flight_ -= messages.size();
    std::vector<PublishOutcome> outcomes;
    for (const auto& each : messages) outcomes.push_back(held_ ? silence() : take(each, call));
    return outcomes;
  }
  void probe() {
    const std::lock_guard lock(mutex_);
    ++probes_;
    require_up();
  }
  [[nodiscard]] std::optional<std::string> blocked() const {
    return look([&] { return blocked_; });
  }

  // --- the Consumer

  std::vector<IncomingMessage> fetch(std::size_t most, const TransportCall& call) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, call.stop, call.deadline, [&] { return down_ || !waiting_.empty(); });
    if (down_) give_back_all();
    require_up();
    std::vector<IncomingMessage> messages;
    while (messages.size() < most && !waiting_.empty()) {
      auto message = std::move(waiting_.front());
      waiting_.pop_front();
      message.tag = ++last_tag_;
      delivered_.emplace(message.tag, message);
      messages.push_back(std::move(message));
    }
    return messages;
  }
  void ack(std::span<const std::uint64_t> tags) {
    std::function<void(std::span<const std::uint64_t>)> call;
    {
      const std::lock_guard lock(mutex_);
      call = on_ack_;
    }
    if (call) call(tags);
    const std::lock_guard lock(mutex_);
    require_up();
    for (const auto tag : tags) acked_ += delivered_.erase(tag);
  }
  void give_back(std::span<const std::uint64_t> tags) {
    const std::lock_guard lock(mutex_);
    for (const auto tag : tags) {
      const auto found = delivered_.find(tag);
      if (found == delivered_.end()) continue;
      ++returned_;
      waiting_.push_back(std::move(found->second));
      delivered_.erase(found);
    }
    changed_.notify_all();
  }

 private:
  template <class Change>
  void change(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <class Look>
  std::invoke_result_t<const Look&> look(const Look& look) const {
    const std::lock_guard lock(mutex_);
    return look();
  }
  void require_up() const {
    if (down_) throw std::runtime_error("connection refused");
  }
  static PublishOutcome silence() {
    return {.result = PublishResult::unavailable, .reason = "no confirmation"};
  }
  PublishOutcome take(const Message& message, const TransportCall& call) {
    if (down_) return {.result = PublishResult::unavailable, .reason = "connection refused"};
    auto outcome = answer_ ? answer_(message) : PublishOutcome{PublishResult::confirmed};
    if (outcome.result == PublishResult::confirmed) {
      stored_.push_back({message.payload, transport::cloud_event_headers(message, call.source, {}),
                         message.topic});
    }
    return outcome;
  }
  void note_streams(std::span<const Message> messages) {
    std::set<std::string> streams;
    for (const auto& each : messages) {
      if (each.stream && !streams.insert(*each.stream).second) mixed_a_stream_ = true;
    }
  }
  /// The connection is lost: the broker delivers these messages again.
  void give_back_all() {
    for (auto& [tag, message] : delivered_) waiting_.push_back(std::move(message));
    delivered_.clear();
  }

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool down_ = false;
  bool held_ = false;
  std::optional<std::string> blocked_;
  std::function<PublishOutcome(const Message&)> answer_;
  std::function<void(std::span<const std::uint64_t>)> on_ack_;
  std::vector<BrokerMessage> stored_;
  std::size_t calls_ = 0;
  std::size_t probes_ = 0;
  std::size_t in_flight_ = 0;
  std::size_t most_in_flight_ = 0;
  bool mixed_a_stream_ = false;
  std::deque<IncomingMessage> waiting_;
  std::map<std::uint64_t, IncomingMessage> delivered_;
  std::uint64_t last_tag_ = 0;
  std::size_t acked_ = 0;
  std::size_t returned_ = 0;
};

class MemoryPublisher final : public Publisher {
 public:
  explicit MemoryPublisher(std::shared_ptr<MemoryBroker> broker) : broker_(std::move(broker)) {}
  [[nodiscard]] std::string kind() const override { return "memory"; }
  [[nodiscard]] std::string address() const override { return "memory://broker"; }
  [[nodiscard]] std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                                    const TransportCall& call) override {
    return broker_->publish(messages, call);
  }
  void probe(const TransportCall& /*call*/) override { broker_->probe(); }
  [[nodiscard]] std::optional<std::string> blocked() const override { return broker_->blocked(); }

 private:
  std::shared_ptr<MemoryBroker> broker_;
};

class MemoryConsumer final : public Consumer {
 public:
  explicit MemoryConsumer(std::shared_ptr<MemoryBroker> broker) : broker_(std::move(broker)) {}
  [[nodiscard]] std::string kind() const override { return "memory"; }
  [[nodiscard]] std::string address() const override { return "memory://broker"; }
  [[nodiscard]] std::vector<IncomingMessage> fetch(std::size_t most,
                                                   const TransportCall& call) override {
    return broker_->fetch(most, call);
  }
  void ack(std::span<const std::uint64_t> tags, const TransportCall& /*call*/) override {
    broker_->ack(tags);
  }
  void give_back(std::span<const std::uint64_t> tags, const TransportCall& /*call*/) override {
    broker_->give_back(tags);
  }

 private:
  std::shared_ptr<MemoryBroker> broker_;
};

/// The messages that a broker has stored, as its Consumer receives them.
inline IncomingMessage incoming_of(const BrokerMessage& message) {
  IncomingMessage incoming{.payload = message.payload};
  transport::read_cloud_event(message.headers, incoming);
  return incoming;
}

}  // namespace dovetail::testing
