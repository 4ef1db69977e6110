#include "postgres/outbox_store.hpp"

#include <algorithm>
#include <functional>

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::int64_t count_limit = 100'000;
constexpr std::size_t copy_chunk_bytes = std::size_t{256} << 10;

Params enqueue_params(const storage::NewMessage& message) {
  Params params;
  params.add(message.id.uuid())
      .add(message.topic)
      .add(message.payload)
      .add(message.correlation_id)
      .add(message.due_at);
  return params;
}

void append_field(std::string& out, std::string_view bytes) {
  append_integer<std::int32_t>(out, static_cast<std::int32_t>(bytes.size()));
  out += bytes;
}

/// One row in COPY's binary format. `scheduled`: with the due time as its last field.
void append_copy_row(std::string& out, const storage::NewMessage& message, bool scheduled) {
  append_integer<std::int16_t>(out, scheduled ? 5 : 4);
  const auto& id = message.id.uuid().bytes();
  append_field(out, {reinterpret_cast<const char*>(id.data()), id.size()});
  append_field(out, message.topic);
  append_field(out, message.payload);
  if (message.correlation_id) {
    append_field(out, *message.correlation_id);
  } else {
    append_integer<std::int32_t>(out, -1);
  }
  if (scheduled) {
    append_integer<std::int32_t>(out, 8);
    append_integer(out, to_postgres_time(*message.due_at));
  }
}

/// Streams those messages that have (`scheduled`) or do not have a due time of their own.
void copy_messages(SessionCore& session, const storage::StatementTexts& texts,
                   const storage::Statement& statement, std::span<const storage::NewMessage> messages,
                   bool scheduled) {
  const auto belongs = [&](const storage::NewMessage& message) {
    return message.due_at.has_value() == scheduled;
  };
  if (std::ranges::none_of(messages, belongs)) return;
  auto next = messages.begin();
  bool header_sent = false;
  bool trailer_sent = false;
  session.copy_in(texts, statement, [&](std::string& chunk) {
    if (trailer_sent) return false;
    if (!header_sent) chunk.append("PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0", 19);
    header_sent = true;
    for (; next != messages.end() && chunk.size() < copy_chunk_bytes; ++next) {
      if (belongs(*next)) append_copy_row(chunk, *next, scheduled);
    }
    if (next == messages.end()) {
      append_integer<std::int16_t>(chunk, -1);
      trailer_sent = true;
    }
    return true;
  });
}

ClaimedMessage read_claimed(const Result& result, int row) {
  ClaimedMessage claimed;
  auto& message = claimed.message;
  message.id = OutboxWorkItemId{result.uuid(row, 0)};
  message.message_id = OutboxMessageId{result.uuid(row, 0)};
  message.topic = result.text(row, 1);
  message.payload = result.text(row, 2);
  if (!result.is_null(row, 3)) message.correlation_id = result.text(row, 3);
  message.created_at = result.time(row, 4);
  message.due_at = result.time(row, 5);
  message.attempts = static_cast<int>(result.integer(row, 6));
  claimed.claim = {message.id, result.integer(row, 7)};
  claimed.lease_until = result.time(row, 8);
  return claimed;
}

}  // namespace

void OutboxStore::enqueue(storage::WriteSession& session, const storage::NewMessage& message) {
  WriteSession::of(session).run(texts_, sql::outbox_enqueue, enqueue_params(message));
}

void OutboxStore::enqueue_many(storage::WriteSession& session, std::span<const storage::NewMessage> messages,
                               bool repeated) {
  auto& core = WriteSession::of(session);
  if (!repeated) {
    copy_messages(core, texts_, sql::outbox_enqueue_many, messages, false);
    copy_messages(core, texts_, sql::outbox_enqueue_many_scheduled, messages, true);
    return;
  }
  // COPY cannot pass over a row that is there already: what may be a repetition goes one by one, in one round
  // trip.
  std::vector<Params> params;
  params.reserve(messages.size());
  for (const auto& message : messages) params.push_back(enqueue_params(message));
  core.run_many(texts_, sql::outbox_enqueue, params);
}

std::vector<ClaimedMessage> OutboxStore::claim(storage::WriteSession& session, const ClaimRequest& request) {
  Params params;
  params.add(request.owner.uuid());
  params.add(std::int32_t{request.batch_size});
  params.add(std::int64_t{std::chrono::microseconds{request.lease}.count()});
  const auto result = WriteSession::of(session).run(texts_, sql::outbox_claim, params);
  std::vector<ClaimedMessage> claimed;
  claimed.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) claimed.push_back(read_claimed(result, row));
  return claimed;
}

std::size_t OutboxStore::ack(storage::WriteSession& session, OwnerToken owner,
                             std::span<const Claim> claims) {
  std::vector<Uuid> ids;
  std::vector<std::int64_t> epochs;
  for (const auto& claim : claims) {
    ids.push_back(claim.id.uuid());
    epochs.push_back(claim.epoch);
  }
  Params params;
  params.add(owner.uuid()).add(std::span<const Uuid>{ids}).add(std::span<const std::int64_t>{epochs});
  return static_cast<std::size_t>(
      WriteSession::of(session).run(texts_, sql::outbox_ack, params).integer(0, 0));
}

OutboxCounts OutboxStore::counts(storage::ReadSession& session) {
  Params params;
  params.add(count_limit);
  const auto result = ReadSession::of(session).run(texts_, sql::outbox_counts, params);
  OutboxCounts counts;
  counts.ready = result.integer(0, 0);
  counts.scheduled = result.integer(0, 1);
  counts.in_progress = result.integer(0, 2);
  counts.done = result.integer(0, 3);
  counts.failed = result.integer(0, 4);
  counts.counted_up_to = count_limit;
  if (!result.is_null(0, 5)) counts.oldest_due = std::chrono::microseconds{result.integer(0, 5)};
  return counts;
}

}  // namespace dovetail::postgres
