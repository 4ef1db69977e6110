// A connection to PostgreSQL without Dovetail.
#pragma once

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <future>
#include <string>

#include "support/backend.hpp"

namespace dovetail::testing {

/// A separate session, whose transaction the test controls.
class PostgresSession {
 public:
  explicit PostgresSession(const Backend& backend)
      : connection_(PQconnectdb(backend.url().c_str())) {
    run("begin");
  }
  ~PostgresSession() { PQfinish(connection_); }
  PostgresSession(const PostgresSession&) = delete;
  PostgresSession& operator=(const PostgresSession&) = delete;

  std::string run(const std::string& sql) {
    PGresult* result = PQexec(connection_, sql.c_str());
    const auto status = PQresultStatus(result);
    std::string answer =
        PQntuples(result) > 0 && PQnfields(result) > 0 ? PQgetvalue(result, 0, 0) : "";
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
      ADD_FAILURE() << sql << ": " << PQerrorMessage(connection_);
    PQclear(result);
    return answer;
  }
  /// Runs a statement that must fail, and returns its SQLSTATE.
  std::string error_of(const std::string& sql) {
    PGresult* result = PQexec(connection_, sql.c_str());
    const char* code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    std::string answer = code != nullptr ? code : "";
    PQclear(result);
    return answer;
  }
  /// Runs a statement on another thread, because it may have to wait for a lock.
  std::future<std::string> start(const std::string& sql) {
    return std::async(std::launch::async, [this, sql] { return run(sql); });
  }
  [[nodiscard]] int pid() const { return PQbackendPID(connection_); }

 private:
  PGconn* connection_;
};

}  // namespace dovetail::testing
