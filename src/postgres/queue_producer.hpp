// Stores messages of one queue in PostgreSQL.
#pragma once

#include "postgres/session.hpp"
#include "postgres/sql.hpp"
#include "storage/queue_producer.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class QueueProducer final : public storage::QueueProducer {
 public:
  QueueProducer(const storage::StatementTexts& texts, const sql::Queue& queue)
      : texts_(texts), sql_(queue) {}

  Enqueued enqueue(storage::WriteSession& session, const storage::NewMessage& message) override;
  std::vector<Enqueued> enqueue_many(storage::WriteSession& session,
                                     std::span<const storage::NewMessage> messages,
                                     bool repeated) override;

 private:
  using Messages = std::span<const storage::NewMessage>;
  /// Streams plain messages with COPY.
  void copy(SessionCore& session, Messages messages);
  /// Stores the next portion with one statement, and appends its outcomes.
  void insert(SessionCore& session, Messages portion, bool fresh, bool notify,
              std::vector<Enqueued>& answers);

  const storage::StatementTexts& texts_;
  const sql::Queue& sql_;
};

}  // namespace dovetail::postgres
