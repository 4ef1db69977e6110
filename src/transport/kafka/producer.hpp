// A producer of librdkafka: it sends messages and waits for their delivery reports.
//
// Threads: may be shared between threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/kafka/library.hpp"

namespace dovetail::transport::kafka {

class Producer {
 public:
  explicit Producer(const KafkaOptions& options);

  /// `topic` is a template, see KafkaPublisherOptions::topic.
  [[nodiscard]] std::vector<PublishOutcome> send(std::span<const Message> messages,
                                                 const std::string& topic,
                                                 const TransportCall& call);
  /// Throws std::runtime_error if no broker answers.
  void require_cluster(const TransportCall& call);
  /// Whether a message was left without a report, or an error has ended it. Then it must not be
  /// used by further calls: a message of an earlier call could follow a later one.
  [[nodiscard]] bool is_spent() const { return is_spent_; }

 private:
  /// The messages of one call. Under the mutex.
  struct Batch {
    std::vector<PublishOutcome> outcomes{};
    std::size_t missing = 0;
  };
  /// The opaque value of one message, which its report deletes.
  struct Pending {
    Producer* producer = nullptr;
    std::shared_ptr<Batch> batch{};
    std::size_t index = 0;
  };

  /// Absent: the library has taken the message.
  std::optional<PublishOutcome> produce(const Message& message, const std::string& topic,
                                        const TransportCall& call,
                                        std::unique_ptr<Pending> pending);
  void await(std::unique_lock<std::mutex>& lock, const Batch& batch, const TransportCall& call);
  static void on_report(rd_kafka_t* handle, const rd_kafka_message_t* message, void* opaque);

  std::mutex mutex_;
  std::condition_variable_any reported_;
  std::atomic<bool> is_spent_{false};
  Owned<rd_kafka_t> handle_;
  std::jthread poller_;  ///< Calls on_report().
};

}  // namespace dovetail::transport::kafka
