// One libpq connection.
//
// Guarantees
//   * Every call can be ended by a stop_token: connecting, and each statement (by a cancel request
//   to the
//     server). When the server does not answer the cancel request either, the connection is given
//     up after 2 s.
//   * A failure names the statement, carries the SQLSTATE, and is classified once, in error.cpp.
//   * A connection that broke says so (usable() is false) and is never handed out again.
//
// Threads: one at a time.
#pragma once

#include <libpq-fe.h>

#include <chrono>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/owner_process.hpp"
#include "postgres/params.hpp"
#include "postgres/result.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

/// The parsed connection string with Dovetail's defaults filled in: keepalives, timeouts,
/// application name, encoding.
class ConnectionSettings {
 public:
  /// Throws std::invalid_argument, without the string's secrets, when libpq cannot read it.
  /// `read_committed`: whatever the server's default isolation level is (not for poolers, which
  /// refuse startup options).
  explicit ConnectionSettings(std::string_view url, bool read_committed = false);

  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& values() const {
    return values_;
  }
  [[nodiscard]] std::string_view get(std::string_view key) const;
  /// The limit of one attempt to connect: that of the connection string, or else `fallback`.
  [[nodiscard]] std::chrono::milliseconds connect_timeout(std::chrono::milliseconds fallback) const;
  /// True when connecting sends startup options of ours, which poolers refuse.
  [[nodiscard]] bool sends_options() const { return sends_options_; }
  /// host:port/database, for logs.
  [[nodiscard]] std::string describe() const;
  /// The settings with one host each, if libpq would try them in this order.
  [[nodiscard]] std::vector<ConnectionSettings> for_each_host() const;

 private:
  void set(std::string_view key, std::string_view value);

  std::vector<std::pair<std::string, std::string>> values_;
  bool sends_options_ = false;
};

/// One attempt to connect, at each of the hosts if there are several.
struct ConnectOptions {
  std::chrono::milliseconds timeout{4'000};
  /// No connection with these settings has succeeded yet. An unknown host name or a refused SSL
  /// connection is then an error that is not transient.
  bool first = false;
};

/// A statement on its way to the server.
struct Command {
  std::string_view name;  // for errors, and the prepared statement's name
  std::string_view text;  // must end in NUL, as std::string's does
  const Params* params = nullptr;
  bool prepare = false;  // keep it prepared under its name
  bool decides = false;  // losing the connection while it runs leaves the transaction in doubt
  enum class AtStop {
    cancel,  // a stop request sends a cancel request
    finish,  // a stop request only limits how long we wait for the answer: COMMIT
    hurry,   // we wait for the answer for a limited time in any case: ROLLBACK
  };
  AtStop at_stop = AtStop::cancel;
};

class Connection {
 public:
  [[nodiscard]] static std::unique_ptr<Connection> open(const ConnectionSettings& settings,
                                                        const std::stop_token& stop = {},
                                                        const ConnectOptions& options = {});
  /// Wraps a connection of the user's, which stays open and in the mode it was in.
  [[nodiscard]] static std::unique_ptr<Connection> borrow(PGconn* connection);

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Runs one command.
  Result run(const Command& command, const std::stop_token& stop = {});

  /// Runs them all in one round trip (pipeline mode); the first failure is thrown, and those behind
  /// it did not run.
  std::vector<Result> run_pipelined(std::span<const Command> commands,
                                    const std::stop_token& stop = {});

  /// Runs a COPY … FROM STDIN, and sends it `data`.
  void copy_in(const Command& command, std::string_view data, const std::stop_token& stop = {});

  /// Runs a text of many statements.
  void run_script(std::string_view name, const std::string& text);

  /// Waits until the server sends a notification on a channel this connection listens to, or until
  /// `deadline` (false) or `stop` (false). Takes all that have come. `heard` is called with the
  /// payload of each.
  bool wait_for_notification(std::chrono::steady_clock::time_point deadline,
                             const std::stop_token& stop,
                             const std::function<void(std::string_view)>& heard = {});

  /// False once the connection is broken, also when the server hung up while it was idle.
  [[nodiscard]] bool usable() const;
  [[nodiscard]] PGTransactionStatusType transaction_status() const {
    return PQtransactionStatus(connection_);
  }
  [[nodiscard]] PGconn* native() const { return connection_; }

 private:
  [[nodiscard]] static std::unique_ptr<Connection> open_one(const ConnectionSettings& settings,
                                                            const std::stop_token& stop,
                                                            const ConnectOptions& options);
  class CancelRequest;
  class Call;
  Connection(PGconn* connection, bool owned);

  void send(const Command& command);
  void send_copy_data(const Command& command, std::string_view data, Call& call);
  /// A name stands for the text that was prepared under it first; the same name with another text
  /// (that of another schema, through a borrowed transaction) is run without being prepared.
  enum class Preparation { none, first_use, done };
  [[nodiscard]] Preparation preparation_of(const Command& command) const;
  Result wait_for_last_result(const Command& command, Call& call);
  void refuse_copy(const Result& result);
  [[noreturn]] void fail(const Command& command, const Result* result);

  PGconn* connection_;
  bool owned_;
  bool broken_ = false;
  bool abandoned_ = false;  // a call ended without the server's answer
  core::OwnerProcess process_;
  int wake_fd_ = -1;
  std::unordered_map<std::string, std::string> prepared_;  // name → text
};

}  // namespace dovetail::postgres
