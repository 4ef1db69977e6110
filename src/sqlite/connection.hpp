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

/// A statement being run: bind, then step row by row; reset when it goes out of scope.
class Cursor {
 public:
  /// `finalize`: the statement belongs to this cursor alone.
  Cursor(Connection& connection, sqlite3_stmt* statement, std::string_view name, bool finalize);
  /// Only before anything is bound.
  Cursor(Cursor&& other) noexcept;
  Cursor& operator=(Cursor&&) = delete;
  ~Cursor();

  /// The next parameter; the bound value must outlive the cursor.
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
  /// Binds all, by their numbers: $1 is the first wherever it stands in the text.
  void bind_all(std::span<const Parameter> parameters);

  /// True while there is a row.
  bool step();
  /// For a statement without rows; answers how many it changed.
  std::size_t run();

  [[nodiscard]] int columns() const;
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::string text(int column) const;
  /// Until the next step.
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
  // Ids are often temporaries: here they last as long as they must, and SQLite need not allocate
  // for each.
  std::array<Uuid, 17> uuids_{};
  std::size_t uuid_count_ = 0;
};

class Connection {
 public:
  enum class Mode { read_only, read_write };

  /// Opens the file, creating it when it may be written, with Dovetail's settings.
  static std::unique_ptr<Connection> open(const std::string& path, Mode mode,
                                          std::chrono::milliseconds busy_timeout,
                                          const char* vfs = nullptr);
  /// Wraps a connection of the user's, which stays open.
  static std::unique_ptr<Connection> borrow(sqlite3* connection);

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// A statement of ours: prepared once per connection.
  Cursor run(const storage::StatementTexts& texts, const storage::Statement& statement);
  /// A statement of the user's.
  Cursor prepare(std::string_view sql);
  /// BEGIN and the like: one statement, prepared once per connection. `text` must last as long as
  /// that.
  void control(std::string_view name, const std::string& text, bool decides = false);
  /// A text of many statements.
  void script(std::string_view name, const std::string& text, bool decides = false);

  /// What waits to be written together with more of its kind.
  class Gathered {
   public:
    virtual void write(Connection& connection) = 0;
    virtual void drop() noexcept = 0;

   protected:
    ~Gathered() = default;
  };
  /// While it exists, what need not be written at once may wait in gather(): until another
  /// statement is to run, or finish().
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
  /// One at a time: what another one had gathered is written.
  void gather(Gathered& what);

  /// True once a statement has failed, until forget_failure(). SQLite would let the transaction go
  /// on without it; PostgreSQL does not, and one contract holds for both.
  [[nodiscard]] bool failed() const { return failed_; }
  void note_failure() { failed_ = true; }
  void forget_failure() { failed_ = false; }
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
  std::unordered_map<const std::string*, sqlite3_stmt*> prepared_;  // by where their texts are kept
};

/// The settings that every connection to a shared file needs.
void apply_settings(sqlite3* connection, std::chrono::milliseconds busy_timeout);

}  // namespace dovetail::sqlite
