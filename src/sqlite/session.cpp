#include "sqlite/session.hpp"

#include "dovetail/error.hpp"

namespace dovetail::sqlite {
namespace {

[[noreturn]] void wrong_engine() {
  throw InvalidOperation("the transaction belongs to another engine than this SQLite database");
}

Rows run_query(Connection& connection, std::string_view sql,
               std::span<const Parameter> parameters) {
  auto cursor = connection.prepare(sql);
  cursor.bind_all(parameters);
  return cursor.rows();
}

}  // namespace

Rows ReadSession::query(std::string_view sql, std::span<const Parameter> parameters) {
  return run_query(connection_, sql, parameters);
}

Rows WriteSession::query(std::string_view sql, std::span<const Parameter> parameters) {
  return run_query(connection_, sql, parameters);
}

std::size_t WriteSession::execute(std::string_view sql, std::span<const Parameter> parameters) {
  auto cursor = connection_.prepare(sql);
  cursor.bind_all(parameters);
  return cursor.run();
}

Connection& ReadSession::of(storage::ReadSession& session) {
  auto* own = dynamic_cast<ReadSession*>(&session);
  if (own == nullptr) wrong_engine();
  return own->connection();
}

Connection& WriteSession::of(storage::WriteSession& session) {
  auto* own = dynamic_cast<WriteSession*>(&session);
  if (own == nullptr) wrong_engine();
  return own->connection();
}

}  // namespace dovetail::sqlite
