#include "postgres/session.hpp"

#include <array>

#include "dovetail/error.hpp"

namespace dovetail::postgres {
namespace {

constexpr Command rollback_command{
    .name = "rollback", .text = "rollback", .at_stop = Command::AtStop::hurry};

[[noreturn]] void wrong_engine() {
  throw InvalidOperation("the transaction belongs to another engine than this PostgreSQL database");
}

}  // namespace

bool SessionCore::must_begin() const {
  return !begun_ && (scope_ == Scope::transaction || scope_ == Scope::read_only);
}

Command SessionCore::begin_command() const {
  // The isolation level is explicit, because an administrator may change the default of the server.
  return {.name = "begin",
          .text = scope_ == Scope::read_only ? "begin isolation level repeatable read read only"
                                             : "begin isolation level read committed read write"};
}

Command SessionCore::command_for(const storage::StatementTexts& texts,
                                 const storage::Statement& statement, const Params& params) const {
  statement.runs.fetch_add(1, std::memory_order_relaxed);
  return {.name = statement.name,
          .text = texts.of(statement),
          .params = &params,
          .prepare = prepare_,
          .decides = scope_ == Scope::autocommit};
}

Result SessionCore::run_first_or_next(const Command& command) {
  if (!must_begin()) return connection_.run(command, stop_);
  begun_ = true;
  const std::array commands{begin_command(), command};
  return std::move(connection_.run_pipelined(commands, stop_).back());
}

void SessionCore::begin_now() {
  if (!must_begin()) return;
  begun_ = true;
  connection_.run(begin_command(), stop_);
}

Result SessionCore::run(const storage::StatementTexts& texts, const storage::Statement& statement,
                        const Params& params) {
  return run_first_or_next(command_for(texts, statement, params));
}

Result SessionCore::run_planned_anew(const storage::StatementTexts& texts,
                                     const storage::Statement& statement, const Params& params) {
  auto command = command_for(texts, statement, params);
  command.prepare = false;
  return run_first_or_next(command);
}

std::vector<Result> SessionCore::run_all(const storage::StatementTexts& texts,
                                         std::span<const Call> calls) {
  std::vector<Command> commands;
  commands.reserve(calls.size() + 1);
  const bool begins = must_begin();
  if (begins) commands.push_back(begin_command());
  for (const auto& call : calls) {
    commands.push_back(command_for(texts, *call.statement, call.params));
    commands.back().ends_step = call.ends_step;
  }
  begun_ = begun_ || begins;
  auto results = connection_.run_pipelined(commands, stop_);
  if (begins) results.erase(results.begin());
  return results;
}

void SessionCore::copy_in(const storage::StatementTexts& texts, const storage::Statement& statement,
                          std::string_view data) {
  begin_now();
  connection_.copy_in(command_for(texts, statement, {}), data, stop_);
}

Result SessionCore::run_text(std::string_view sql, std::span<const Parameter> parameters) {
  Params params;
  for (const auto& parameter : parameters) params.add(parameter);
  const std::string text{sql};
  return run_first_or_next({.name = "sql", .text = text, .params = &params});
}

void SessionCore::run_script(std::string_view name, const std::string& text) {
  begin_now();
  connection_.run_script(name, text);
}

void SessionCore::require_intact() const {
  if (!begun_) return;
  switch (connection_.transaction_status()) {
    case PQTRANS_INERROR:
      throw InvalidOperation("a statement of this transaction failed: roll it back");
    case PQTRANS_IDLE:
      throw InvalidOperation("a statement of this transaction ended it");
    default:
      return;
  }
}

void SessionCore::commit() {
  if (!begun_) return;
  if (connection_.transaction_status() == PQTRANS_IDLE) require_intact();
  begun_ = false;
  // COMMIT of a failed transaction rolls back and reports no error. Treat it as a failure.
  if (connection_.transaction_status() == PQTRANS_INERROR) {
    connection_.run(rollback_command);
    throw InvalidOperation(
        "a statement of this transaction failed: it was rolled back instead of committed");
  }
  // A commit is not cancelled: its outcome would be unknown.
  connection_.run(
      {.name = "commit", .text = "commit", .decides = true, .at_stop = Command::AtStop::finish},
      stop_);
}

void SessionCore::rollback() {
  if (!begun_) return;
  begun_ = false;
  connection_.run(rollback_command);
}

SessionCore& ReadSession::of(storage::ReadSession& session) {
  auto* own = dynamic_cast<ReadSession*>(&session);
  if (own == nullptr) wrong_engine();
  return own->core();
}

SessionCore& WriteSession::of(storage::WriteSession& session) {
  auto* own = dynamic_cast<WriteSession*>(&session);
  if (own == nullptr) wrong_engine();
  return own->core();
}

}  // namespace dovetail::postgres
