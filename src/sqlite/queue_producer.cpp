#include "sqlite/queue_producer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/assert.hpp"
#include "core/text.hpp"
#include "sqlite/session.hpp"

namespace dovetail::sqlite {
namespace {

constexpr std::size_t inserts_at_once = 8;  // of enqueue_many_step_eight

/// True if no stored message can have the same id or key.
bool cannot_conflict(const storage::NewMessage& message) {
  return message.fresh && !message.unique_key && !message.stream;
}

/// Binds the parameters that every statement which stores a message takes, in this order.
void bind_message(Cursor& cursor, const storage::NewMessage& message, WallTime now) {
  cursor.bind(message.id.uuid())
      .bind(message.topic)
      .bind(message.payload)
      .bind(message.correlation_id)
      .bind(message.delay ? std::optional<WallTime>{now + *message.delay} : message.due_at)
      .bind(core::view_of(message.headers))
      .bind(message.expires_at)
      .bind(std::int64_t{message.priority});
}

}  // namespace

void QueueProducer::insert(Connection& connection, Messages some) {
  DOVETAIL_ASSERT(some.size() == 1 || some.size() == inserts_at_once);
  auto cursor = context_.run(connection, some.size() == 1 ? context_.sql.enqueue_many
                                                          : context_.sql.enqueue_many_step_eight);
  const auto now = context_.now();
  cursor.bind(now);
  for (const auto* message : some) bind_message(cursor, *message, now);
  cursor.run();
}

void QueueProducer::write(Connection& connection) {
  const auto gathered = std::exchange(gathered_, {});
  for (Messages left = gathered; !left.empty();) {
    const auto some = left.first(left.size() < inserts_at_once ? 1 : inserts_at_once);
    insert(connection, some);
    left = left.subspan(some.size());
  }
}

Enqueued QueueProducer::enqueue(storage::WriteSession& session,
                                const storage::NewMessage& message) {
  auto& connection = WriteSession::of(session);
  if (connection.gathering() && message.lasts && cannot_conflict(message)) {
    session.wakes(context_.sql.name);
    connection.gather(*this);
    gathered_.push_back(&message);
    return {message.id, true};
  }
  {
    auto cursor = context_.run(connection, context_.sql.enqueue);
    const auto now = context_.now();
    bind_message(cursor, message, now);
    cursor.bind(message.unique_key).bind(now).bind(message.stream);
    if (cursor.run() == 1) {
      session.wakes(context_.sql.name);
      return {message.id, true};
    }
  }
  auto existing = context_.run(connection, context_.sql.enqueue_step_existing);
  existing.bind(message.id.uuid()).bind(message.unique_key).step();
  return {MessageId{existing.uuid(0)}, false};
}

std::vector<Enqueued> QueueProducer::enqueue_many(storage::WriteSession& session,
                                                  std::span<const storage::NewMessage> messages,
                                                  bool repeated) {
  auto& connection = WriteSession::of(session);
  session.wakes(context_.sql.name);
  std::vector<Enqueued> answers;
  answers.reserve(messages.size());
  std::array<const storage::NewMessage*, inserts_at_once> some{};
  while (!messages.empty()) {
    if (repeated || !cannot_conflict(messages.front())) {
      answers.push_back(enqueue(session, messages.front()));
      messages = messages.subspan(1);
      continue;
    }
    const auto next = messages.first(std::min(messages.size(), some.size()));
    const bool full = next.size() == some.size() && std::ranges::all_of(next, cannot_conflict);
    const std::size_t count = full ? some.size() : 1;
    std::ranges::transform(next.first(count), some.begin(), [](const auto& each) { return &each; });
    insert(connection, std::span{some}.first(count));
    for (const auto& message : next.first(count)) answers.emplace_back(message.id, true);
    messages = messages.subspan(count);
  }
  return answers;
}

}  // namespace dovetail::sqlite
