// The base of contracts about transports: a platform with a broker in memory.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/memory_broker.hpp"

namespace dovetail::testing {

class TransportTest : public BackendTest {
 protected:
  [[nodiscard]] std::shared_ptr<Publisher> publisher() const {
    return std::make_shared<MemoryPublisher>(broker);
  }
  [[nodiscard]] std::shared_ptr<Consumer> consumer() const {
    return std::make_shared<MemoryConsumer>(broker);
  }
  MessageId put(const std::string& payload, const std::string& topic = "t",
                std::optional<std::string> stream = {}) {
    return outbox.enqueue({.topic = topic, .payload = payload, .stream = std::move(stream)});
  }
  StoredMessage found(MessageId id) {
    const auto message = outbox.find(id);
    EXPECT_TRUE(message.has_value());
    return message.value_or(StoredMessage{});
  }
  bool becomes(MessageId id, MessageStatus status) {
    return eventually([&] { return found(id).status == status; });
  }
  /// Waits until nothing is left to do.
  bool drained() {
    return eventually([&] {
      const auto counts = outbox.counts();
      return counts.ready == 0 && counts.in_progress == 0 && counts.scheduled == 0;
    });
  }
  /// The state of the first route or source.
  [[nodiscard]] TransportInfo info() const {
    const auto all = platform.transports();
    return all.empty() ? TransportInfo{} : all.front();
  }
  bool reaches(TransportState state) {
    return eventually([&] { return info().state == state; });
  }
  static PublishOptions quick() {
    return {.timeout = std::chrono::seconds{20},
            .first_probe = std::chrono::milliseconds{5},
            .longest_probe = std::chrono::milliseconds{20}};
  }

  std::shared_ptr<MemoryBroker> broker = std::make_shared<MemoryBroker>();
  Platform platform = backend.open();
  Outbox& outbox = platform.outbox();
};

}  // namespace dovetail::testing
