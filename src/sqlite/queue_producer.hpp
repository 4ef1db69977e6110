// Stores messages of one queue in SQLite.
#pragma once

#include <vector>

#include "sqlite/queue_context.hpp"
#include "storage/queue_producer.hpp"

namespace dovetail::sqlite {

class QueueProducer final : public storage::QueueProducer, private Connection::Gathered {
 public:
  explicit QueueProducer(const QueueContext& context) : context_(context) {}

  Enqueued enqueue(storage::WriteSession& session, const storage::NewMessage& message) override;
  std::vector<Enqueued> enqueue_many(storage::WriteSession& session,
                                     std::span<const storage::NewMessage> messages,
                                     bool repeated) override;

 private:
  // These store single messages of several callers that share a transaction.
  void write(Connection& connection) override;
  void drop() noexcept override { gathered_.clear(); }
  /// Stores messages that cannot conflict with stored ones: one, or as many as one statement takes.
  using Messages = std::span<const storage::NewMessage* const>;
  void insert(Connection& connection, Messages some);

  const QueueContext& context_;
  std::vector<const storage::NewMessage*> gathered_;
};

}  // namespace dovetail::sqlite
