// Sessions on an SQLite connection.
#pragma once

#include "dovetail/clock.hpp"
#include "sqlite/connection.hpp"
#include "storage/session.hpp"

namespace dovetail::sqlite {

class ReadSession final : public storage::ReadSession {
 public:
  explicit ReadSession(Connection& connection) : connection_(connection) {}
  Rows query(std::string_view sql, std::span<const Parameter> parameters) override;
  [[nodiscard]] Connection& connection() { return connection_; }

  /// The SQLite session behind the interface. Throws InvalidOperation for a session of another
  /// engine.
  static Connection& of(storage::ReadSession& session);

 private:
  Connection& connection_;
};

class WriteSession final : public storage::WriteSession {
 public:
  explicit WriteSession(Connection& connection) : connection_(connection) {}
  Rows query(std::string_view sql, std::span<const Parameter> parameters) override;
  std::size_t execute(std::string_view sql, std::span<const Parameter> parameters) override;
  [[nodiscard]] Connection& connection() { return connection_; }

  static Connection& of(storage::WriteSession& session);

 private:
  Connection& connection_;
};

}  // namespace dovetail::sqlite
