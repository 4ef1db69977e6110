// One SQLite connection and its prepared statements.
//
// Threads: one at a time.
#pragma once

#include <sqlite3.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "dovetail/value.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class Connection;

/// A statement that runs. Bind the parameters, then step row by row. The destructor resets the
/// statement.
class Cursor {
 public:
  /// With `finalize`, the cursor owns the statement, and the destructor finalizes it.
  Cursor(Connection& connection, sqlite3_stmt* statement, std::string_view name, bool finalize);
  /// Requires that no parameter is bound yet.
  Cursor(Cursor&& other) noexcept;
  Cursor& operator=(Cursor&&) = delete;
  ~Cursor();

  /// Binds the next parameter. The bound value must outlive the cursor.
  Cursor& bind(std::nullptr_t);
  Cursor& bind(std::int64_t value);
  Cursor& bind(double value);
  Cursor& bind(std::string_view text);
  Cursor& bind(std::span<const std::byte> bytes);
  Cursor& bind(const Uuid& value);
  Cursor& bind(WallTime value);
  template <class T>
  Cursor& bind(const std::optional<T>& value) {
    return value ? bind(*value) : bind(nullptr);
  }
  /// Binds all parameters by number: $1 is the first one, at any place in the text.
  void bind_all(std::span<const Parameter> parameters);

  /// Reads the next row. Returns false if there is none.
  bool step();
  /// Runs a statement that returns no rows. Returns the number of rows that it changed.
  std::size_t run();

  [[nodiscard]] int columns() const;
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::string text(int column) const;
  /// The view is valid until the next step.
  [[nodiscard]] std::string_view view(int column) const;
  [[nodiscard]] Uuid uuid(int column) const;
  [[nodiscard]] WallTime time(int column) const;
  [[nodiscard]] std::optional<std::string> text_or_null(int column) const {
    return is_null(column) ? std::nullopt : std::optional{text(column)};
  }
  [[nodiscard]] std::optional<WallTime> time_or_null(int column) const {
    return is_null(column) ? std::nullopt : std::optional{time(column)};
  }
  [[nodiscard]] Value value(int column) const;
  [[nodiscard]] Rows rows();

 private:
  int next_index() { return ++bound_; }
  void check(int code);
  [[noreturn]] void fail(int code);
  void bind_at(int index, const Parameter& parameter);

  Connection& connection_;
  sqlite3_stmt* statement_;
  std::string_view name_;
  bool finalize_;
  int bound_ = 0;
  // Copies of the bound ids, which are often temporaries. They live as long as the cursor, so
  // SQLite need not allocate memory for each.
  std::array<Uuid, 17> uuids_{};
  std::size_t uuid_count_ = 0;
};

class Connection {
 public:
  enum class Mode { read_only, read_write };

  /// Opens the file and applies the settings of Dovetail. The mode read_write creates a missing
  /// file.
  static std::unique_ptr<Connection> open(const std::string& path, Mode mode,
                                          std::chrono::milliseconds busy_timeout,
                                          const char* vfs = nullptr);
  /// Wraps a connection of the user, and does not close it.
  static std::unique_ptr<Connection> borrow(sqlite3* connection);

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Returns a cursor for a statement of Dovetail, which is prepared once per connection.
  Cursor run(const storage::StatementTexts& texts, const storage::Statement& statement);
  /// Prepares a statement of the user.
  Cursor prepare(std::string_view sql);
  /// Runs a single statement such as BEGIN, which is prepared once per connection. `text` must
  /// outlive the connection.
  void control(std::string_view name, const std::string& text, bool decides = false);
  /// Runs a text with many statements.
  void script(std::string_view name, const std::string& text, bool decides = false);

  /// The owner of delayed writes: write() runs them together, drop() discards them.
  class Gathered {
   public:
    virtual void write(Connection& connection) = 0;
    virtual void drop() noexcept = 0;

   protected:
    ~Gathered() = default;
  };
  /// While it exists, gather() may delay writes until another statement runs, or until finish().
  /// The destructor drops writes that are still delayed.
  class Gathering {
   public:
    explicit Gathering(Connection& connection) : connection_(connection) {
      connection_.gathering_ = true;
    }
    Gathering(const Gathering&) = delete;
    Gathering& operator=(const Gathering&) = delete;
    ~Gathering();
    void finish() { connection_.write_gathered(); }

   private:
    Connection& connection_;
  };
  [[nodiscard]] bool gathering() const { return gathering_; }
  /// Notes that `what` has delayed writes. First runs those of another owner: only one owner has
  /// delayed writes at a time.
  void gather(Gathered& what);

  /// True after a statement has failed, until clear_failure(). SQLite would let the transaction
  /// continue without it. PostgreSQL does not, and both engines have one contract.
  [[nodiscard]] bool failed() const { return failed_; }
  void note_failure() { failed_ = true; }
  void clear_failure() { failed_ = false; }
  [[nodiscard]] bool in_transaction() const { return sqlite3_get_autocommit(connection_) == 0; }
  [[nodiscard]] bool usable() const { return !in_transaction(); }
  [[nodiscard]] sqlite3* native() const { return connection_; }

 private:
  Connection(sqlite3* connection, bool owned) : connection_(connection), owned_(owned) {}
  void write_gathered();

  sqlite3* connection_;
  bool owned_;
  bool failed_ = false;
  bool gathering_ = false;
  Gathered* gathered_ = nullptr;
  std::unordered_map<const std::string*, sqlite3_stmt*> prepared_;  // by the addresses of the texts
};

/// The settings that every connection to a shared file needs.
void apply_settings(sqlite3* connection, std::chrono::milliseconds busy_timeout);

}  // namespace dovetail::sqlite
