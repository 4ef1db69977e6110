// Counts stored messages and duplicates by topic.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/metrics.hpp"
#include "dovetail/outbox.hpp"
#include "storage/queue_producer.hpp"

namespace dovetail::queue {

class EnqueuedCount {
 public:
  void add(std::string_view topic, bool stored);
  /// The messages that were sent, and the answers to them.
  void add(std::span<const storage::NewMessage> messages, std::span<const Enqueued> answers);
  [[nodiscard]] std::size_t stored() const;
  [[nodiscard]] std::size_t duplicates() const;
  /// Counts them. Call it after the commit.
  void report(const Metrics& metrics, std::string_view store, std::string_view queue) const;

 private:
  struct Topic {
    std::string topic{};
    std::uint64_t stored = 0;
    std::uint64_t duplicates = 0;
  };
  std::vector<Topic> topics_;
};

}  // namespace dovetail::queue
