// One queue as a backend stores it: its three roles. Callers take the role that they need.
#pragma once

#include <string_view>

#include "storage/queue_consumer.hpp"
#include "storage/queue_operator.hpp"
#include "storage/queue_producer.hpp"

namespace dovetail::storage {

/// The names of the queues, as tables, metrics and wake-ups spell them.
namespace queues {
inline constexpr std::string_view outbox = "outbox";
inline constexpr std::string_view inbox = "inbox";
inline constexpr std::string_view timers = "timers";
}  // namespace queues

struct QueueStore {
  QueueProducer& producer;
  QueueConsumer& consumer;
  QueueOperator& operations;
};

}  // namespace dovetail::storage
