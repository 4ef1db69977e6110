#include "sqlite/outbox_store.hpp"

#include <algorithm>

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

constexpr std::int64_t count_limit = 100'000;

ClaimedMessage read_claimed(const Cursor& row) {
  ClaimedMessage claimed;
  auto& message = claimed.message;
  message.id = OutboxWorkItemId{row.uuid(0)};
  message.message_id = OutboxMessageId{row.uuid(0)};
  message.topic = row.text(1);
  message.payload = row.text(2);
  if (!row.is_null(3)) message.correlation_id = row.text(3);
  message.created_at = row.time(4);
  message.due_at = row.time(5);
  message.attempts = static_cast<int>(row.integer(6));
  claimed.claim = {message.id, row.integer(7)};
  claimed.lease_until = row.time(8);
  return claimed;
}

void bind_message(Cursor& cursor, const storage::NewMessage& message) {
  cursor.bind(message.id.uuid()).bind(message.topic).bind(message.payload).bind(message.correlation_id);
}

}  // namespace

void OutboxStore::enqueue(storage::WriteSession& session, const storage::NewMessage& message) {
  auto cursor = WriteSession::of(session).run(texts_, sql::outbox_enqueue);
  bind_message(cursor, message);
  cursor.bind(message.due_at).bind(clock_->wall()).run();
}

void OutboxStore::enqueue_many(storage::WriteSession& session, std::span<const storage::NewMessage> messages,
                               bool repeated) {
  auto& connection = WriteSession::of(session);
  for (const auto& message : messages) {
    if (repeated) {
      enqueue(session, message);
    } else if (message.due_at) {
      auto cursor = connection.run(texts_, sql::outbox_enqueue_many_scheduled);
      bind_message(cursor, message);
      cursor.bind(*message.due_at).bind(clock_->wall()).run();
    } else {
      auto cursor = connection.run(texts_, sql::outbox_enqueue_many);
      bind_message(cursor, message);
      cursor.bind(clock_->wall()).run();
    }
  }
}

std::vector<ClaimedMessage> OutboxStore::claim(storage::WriteSession& session, const ClaimRequest& request) {
  const auto now = clock_->wall();
  auto cursor = WriteSession::of(session).run(texts_, sql::outbox_claim);
  cursor.bind(request.owner.uuid())
      .bind(std::int64_t{request.batch_size})
      .bind(now)
      .bind(now + request.lease);
  std::vector<ClaimedMessage> claimed;
  while (cursor.step()) claimed.push_back(read_claimed(cursor));
  // RETURNING answers in no particular order.
  std::ranges::sort(claimed, {}, [](const ClaimedMessage& each) {
    return std::pair{each.message.due_at, each.message.id};
  });
  return claimed;
}

std::size_t OutboxStore::ack(storage::WriteSession& session, OwnerToken owner,
                             std::span<const Claim> claims) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  std::size_t acked = 0;
  for (const auto& claim : claims) {
    auto cursor = connection.run(texts_, sql::outbox_ack);
    acked += cursor.bind(owner.uuid()).bind(claim.id.uuid()).bind(claim.epoch).bind(now).run();
  }
  return acked;
}

OutboxCounts OutboxStore::counts(storage::ReadSession& session) {
  auto cursor = ReadSession::of(session).run(texts_, sql::outbox_counts);
  cursor.bind(count_limit).bind(clock_->wall()).step();
  OutboxCounts counts;
  counts.ready = cursor.integer(0);
  counts.scheduled = cursor.integer(1);
  counts.in_progress = cursor.integer(2);
  counts.done = cursor.integer(3);
  counts.failed = cursor.integer(4);
  counts.counted_up_to = count_limit;
  if (!cursor.is_null(5)) counts.oldest_due = std::chrono::microseconds{cursor.integer(5)};
  return counts;
}

}  // namespace dovetail::sqlite
