// One queue in PostgreSQL.
#pragma once

#include "postgres/queue_consumer.hpp"
#include "postgres/queue_operator.hpp"
#include "postgres/queue_producer.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::postgres {

class QueueStore {
 public:
  QueueStore(const storage::StatementTexts& texts, const sql::Queue& queue)
      : producer_(texts, queue), consumer_(texts, queue), operations_(texts, queue) {}

  [[nodiscard]] storage::QueueStore roles() { return {producer_, consumer_, operations_}; }

 private:
  QueueProducer producer_;
  QueueConsumer consumer_;
  QueueOperator operations_;
};

}  // namespace dovetail::postgres
