// A result in PostgreSQL's binary format.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/value.hpp"

namespace dovetail::postgres {

class Result {
 public:
  explicit Result(PGresult* result) : result_(result) {}

  [[nodiscard]] PGresult* get() const { return result_.get(); }
  [[nodiscard]] ExecStatusType status() const { return PQresultStatus(result_.get()); }
  [[nodiscard]] bool failed() const;

  [[nodiscard]] int rows() const { return PQntuples(result_.get()); }
  [[nodiscard]] int columns() const { return PQnfields(result_.get()); }
  /// The number of rows that an INSERT, UPDATE, DELETE or COPY changed.
  [[nodiscard]] std::size_t affected() const;

  // Fields of the library's own statements, whose types are known.
  [[nodiscard]] bool is_null(int row, int column) const {
    return PQgetisnull(get(), row, column) != 0;
  }
  [[nodiscard]] std::string_view bytes(int row, int column) const;
  [[nodiscard]] std::string text(int row, int column) const {
    return std::string{bytes(row, column)};
  }
  [[nodiscard]] std::int64_t integer(int row, int column) const;
  [[nodiscard]] bool boolean(int row, int column) const;
  [[nodiscard]] Uuid uuid(int row, int column) const;
  [[nodiscard]] WallTime time(int row, int column) const;
  [[nodiscard]] std::optional<std::string> text_or_null(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional{text(row, column)};
  }
  [[nodiscard]] std::optional<WallTime> time_or_null(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional{time(row, column)};
  }

  /// All rows, decoded by the types that the server reports. Throws InvalidOperation for a type
  /// without a decoder.
  [[nodiscard]] Rows to_rows() const;

 private:
  [[nodiscard]] Value value(int row, int column) const;

  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

}  // namespace dovetail::postgres
