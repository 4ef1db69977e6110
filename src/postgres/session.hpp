// Sessions on a PostgreSQL connection.
//
// BEGIN is not sent by itself: it travels with the transaction's first statement, in one round
// trip.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "postgres/connection.hpp"
#include "postgres/notifier.hpp"
#include "storage/session.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

/// The shared part of reading and writing sessions: statements inside a transaction that begins
/// with the first one.
class SessionCore {
 public:
  enum class Scope {
    read_only,    // one snapshot, no writes
    transaction,  // BEGIN … COMMIT
    autocommit,   // each statement by itself
    borrowed,     // inside the user's transaction, on the user's connection
  };
  /// `prepare`: keep statements prepared on the connection (not behind a pooler in transaction
  /// mode). `notifier`: statements may announce messages themselves; null leaves that to the
  /// commit.
  SessionCore(Connection& connection, Scope scope, bool prepare, std::stop_token stop,
              Notifier* notifier = nullptr)
      : connection_(connection),
        scope_(scope),
        prepare_(prepare),
        stop_(std::move(stop)),
        notifier_(notifier) {}

  Result run(const storage::StatementTexts& texts, const storage::Statement& statement,
             const Params& params);
  /// The same, with a new plan for this call: for a statement whose best plan depends on the sizes
  /// of tables.
  Result run_planned_anew(const storage::StatementTexts& texts, const storage::Statement& statement,
                          const Params& params);
  struct Call {
    const storage::Statement* statement;
    Params params;
    /// Without a surrounding transaction: the calls up to this one commit before the next one runs.
    bool ends_step = false;
  };
  /// Runs all calls in one round trip. Without a surrounding transaction they share one of their
  /// own, or one for each step.
  std::vector<Result> run_all(const storage::StatementTexts& texts, std::span<const Call> calls);
  /// Runs a COPY … FROM STDIN with its data.
  void copy_in(const storage::StatementTexts& texts, const storage::Statement& statement,
               std::string_view data);
  Result run_text(std::string_view sql, std::span<const Parameter> parameters);
  void run_script(std::string_view name, const std::string& text);

  void commit();
  void rollback();
  [[nodiscard]] bool is_borrowed() const { return scope_ == Scope::borrowed; }
  /// True when each statement commits by itself.
  [[nodiscard]] bool is_autocommit() const { return scope_ == Scope::autocommit; }
  /// True if a statement is to announce messages of `queue` itself.
  [[nodiscard]] bool take_turn(std::string_view queue) const {
    return notifier_ != nullptr && notifier_->take_turn(queue);
  }
  /// Throws InvalidOperation if a statement of the transaction has failed or has ended it.
  void require_intact() const;

 private:
  Result run_first_or_next(const Command& command);
  void begin_now();
  [[nodiscard]] bool must_begin() const;
  [[nodiscard]] Command begin_command() const;
  [[nodiscard]] Command command_for(const storage::StatementTexts& texts,
                                    const storage::Statement& statement,
                                    const Params& params) const;

  Connection& connection_;
  Scope scope_;
  bool prepare_;
  bool begun_ = false;
  std::stop_token stop_;
  Notifier* notifier_;
};

class ReadSession final : public storage::ReadSession {
 public:
  explicit ReadSession(SessionCore core) : core_(std::move(core)) {}
  Rows query(std::string_view sql, std::span<const Parameter> parameters) override {
    return core_.run_text(sql, parameters).to_rows();
  }
  [[nodiscard]] SessionCore& core() { return core_; }

  /// The PostgreSQL session behind the interface. Throws InvalidOperation for a session of another
  /// engine.
  static SessionCore& of(storage::ReadSession& session);

 private:
  SessionCore core_;
};

class WriteSession final : public storage::WriteSession {
 public:
  explicit WriteSession(SessionCore core) : core_(std::move(core)) {}
  Rows query(std::string_view sql, std::span<const Parameter> parameters) override {
    return core_.run_text(sql, parameters).to_rows();
  }
  std::size_t execute(std::string_view sql, std::span<const Parameter> parameters) override {
    return core_.run_text(sql, parameters).affected();
  }
  [[nodiscard]] SessionCore& core() { return core_; }

  static SessionCore& of(storage::WriteSession& session);

 private:
  SessionCore core_;
};

}  // namespace dovetail::postgres
