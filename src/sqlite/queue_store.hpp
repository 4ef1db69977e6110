// One queue in SQLite.
#pragma once

#include <memory>
#include <utility>

#include "sqlite/queue_consumer.hpp"
#include "sqlite/queue_operator.hpp"
#include "sqlite/queue_producer.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::sqlite {

class QueueStore {
 public:
  /// `watcher` learns of messages that end and that are replayed.
  QueueStore(const storage::StatementTexts& texts, const sql::Queue& queue,
             std::shared_ptr<Clock> clock, QueueWatcher& watcher)
      : context_{texts, queue, std::move(clock), watcher} {}
  QueueStore(const QueueStore&) = delete;
  QueueStore& operator=(const QueueStore&) = delete;

  [[nodiscard]] storage::QueueStore roles() { return {producer_, consumer_, operations_}; }

 private:
  QueueContext context_;
  QueueProducer producer_{context_};
  QueueConsumer consumer_{context_};
  QueueOperator operations_{context_};
};

}  // namespace dovetail::sqlite
