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
  QueueStore(const storage::StatementTexts& texts, const sql::Queue& queue,
             std::shared_ptr<Clock> clock)
      : context_{texts, queue, std::move(clock)} {}
  QueueStore(const QueueStore&) = delete;
  QueueStore& operator=(const QueueStore&) = delete;

  /// Adds a watcher, which must live as long as the queue. Call it before the first transaction.
  void watch(QueueWatcher& watcher) { context_.watchers.add(watcher); }

  [[nodiscard]] QueueConsumer& consumer() { return consumer_; }
  [[nodiscard]] const QueueContext& context() const { return context_; }
  [[nodiscard]] storage::QueueStore roles() { return {producer_, consumer_, operations_}; }

 private:
  QueueContext context_;
  QueueProducer producer_{context_};
  QueueConsumer consumer_{context_};
  QueueOperator operations_{context_};
};

}  // namespace dovetail::sqlite
