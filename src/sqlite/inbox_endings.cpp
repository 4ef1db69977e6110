// The ends of the inbox's messages.
#include "sqlite/inbox_store.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {

void InboxStore::fail_stored(storage::WriteSession& session, MessageId id, std::string_view error) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  auto cursor = connection.run(texts_, sql::inbox_fail_stored);
  if (cursor.bind(id.uuid()).bind(now).bind(error).run() == 0) return;
  const auto message = id.uuid();
  ended(connection, std::span{&message, 1}, Ending::failed, now);
}

void InboxStore::ended(Connection& connection, std::span<const Uuid> messages, Ending ending,
                       WallTime now) {
  const auto status = ending == Ending::done ? InboxStatus::processed : InboxStatus::dead_letter;
  for (const auto& message : messages) {
    auto cursor = connection.run(texts_, sql::inbox_receive_step_ended);
    cursor.bind(message).bind(static_cast<std::int64_t>(status)).bind(now).run();
  }
}

void InboxStore::replayed(Connection& connection, std::span<const Uuid> messages) {
  for (const auto& message : messages) {
    connection.run(texts_, sql::inbox_replay_dead_letters_step_queued).bind(message).run();
  }
}

}  // namespace dovetail::sqlite
