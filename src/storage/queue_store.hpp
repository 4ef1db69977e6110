// One queue as a backend stores it: its three roles. Callers take the role that they need.
#pragma once

#include "storage/queue_consumer.hpp"
#include "storage/queue_names.hpp"
#include "storage/queue_operator.hpp"
#include "storage/queue_producer.hpp"

namespace dovetail::storage {

struct QueueStore {
  QueueProducer& producer;
  QueueConsumer& consumer;
  QueueOperator& operations;
};

}  // namespace dovetail::storage
