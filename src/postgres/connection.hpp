// One libpq connection.
//
// Guarantees
//   * A stop_token ends every call: an attempt to connect, and each statement (by a cancel request
//     to the server). If the server does not answer the cancel request either, the connection is
//     abandoned after 2 s.
//   * A failure names the statement, has the SQLSTATE, and is classified once, in error.cpp.
//   * usable() of a broken connection is false, and a pool does not hand it out again.
//
// Threads: one at a time.
#pragma once

#include <libpq-fe.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/owner_process.hpp"
#include "postgres/host_lookup.hpp"
#include "postgres/params.hpp"
#include "postgres/result.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

/// Settings of a session from its start, whatever the defaults of the server are. Poolers refuse
/// them.
struct StartupSettings {
  bool read_committed = false;
  bool read_only = false;
};

/// The parsed connection string, completed with defaults: keepalives, timeouts, application name,
/// encoding.
class ConnectionSettings {
 public:
  /// Throws std::invalid_argument if libpq cannot parse the string. The text has no secrets.
  explicit ConnectionSettings(std::string_view url, const StartupSettings& startup = {});

  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& values() const {
    return values_;
  }
  [[nodiscard]] std::string_view get(std::string_view key) const;
  /// The time limit of one attempt to connect: that of the connection string, otherwise `fallback`.
  [[nodiscard]] std::chrono::milliseconds connect_timeout(std::chrono::milliseconds fallback) const;
  /// True if connecting sends startup options, which poolers refuse.
  [[nodiscard]] bool sends_options() const { return sends_options_; }
  /// host:port/database, for logs.
  [[nodiscard]] std::string describe() const;
  /// The settings with one host each, if libpq would try them in this order.
  [[nodiscard]] std::vector<ConnectionSettings> for_each_host() const;
  /// The settings with one address each. Without addresses, libpq looks the name up.
  [[nodiscard]] std::vector<ConnectionSettings> for_each_address(
      const std::vector<std::string>& addresses) const;

 private:
  void set(std::string_view key, std::string_view value);

  std::vector<std::pair<std::string, std::string>> values_;
  bool sends_options_ = false;
};

/// One attempt to connect, at each of the hosts and addresses if there are several.
struct ConnectOptions {
  std::chrono::milliseconds timeout{4'000};
  /// No connection with these settings has succeeded yet. An unknown host name or a refused SSL
  /// connection is then an error that is not transient.
  bool first = false;
  /// Finds the addresses of a host name.
  std::function<Addresses(const std::string& host)> resolve = resolve_host;
};

/// A statement on its way to the server.
struct Command {
  std::string_view name;  // for errors; also the name of the prepared statement
  std::string_view text;  // NUL-terminated, like std::string
  const Params* params = nullptr;
  bool prepare = false;  // keep it prepared under its name
  bool decides = false;  // losing the connection while it runs leaves the transaction in doubt
  enum class AtStop {
    cancel,  // a stop request sends a cancel request
    finish,  // a stop request limits the wait for the answer: COMMIT
    hurry,   // the wait for the answer is always limited: ROLLBACK
  };
  AtStop at_stop = AtStop::cancel;
  /// Outside of a transaction: the commands of a pipeline up to this one commit before the next one
  /// runs. If one of them fails, the commands after this one run nevertheless.
  bool ends_step = false;
};

class Connection {
 public:
  [[nodiscard]] static std::unique_ptr<Connection> open(const ConnectionSettings& settings,
                                                        const std::stop_token& stop = {},
                                                        const ConnectOptions& options = {});
  /// Wraps a connection of the user, which stays open and keeps its mode.
  [[nodiscard]] static std::unique_ptr<Connection> borrow(PGconn* connection);

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Runs one command.
  Result run(const Command& command, const std::stop_token& stop = {});

  /// Runs all commands in one round trip (pipeline mode). Throws the first failure; the commands
  /// after it did not run, up to the end of its step.
  std::vector<Result> run_pipelined(std::span<const Command> commands,
                                    const std::stop_token& stop = {});

  /// Runs a COPY … FROM STDIN and sends it `data`.
  void copy_in(const Command& command, std::string_view data, const std::stop_token& stop = {});

  /// Runs a script of several statements.
  void run_script(std::string_view name, const std::string& text);

  /// Waits for a notification on a channel that this connection listens to. Returns false at
  /// `deadline`, or when `stop` is requested. Calls `heard` with the payload of each notification
  /// that has arrived.
  bool wait_for_notification(std::chrono::steady_clock::time_point deadline,
                             const std::stop_token& stop,
                             const std::function<void(std::string_view)>& heard = {});

  /// False once the connection is broken, also if the server closed it while it was idle.
  [[nodiscard]] bool usable() const;
  [[nodiscard]] PGTransactionStatusType transaction_status() const {
    return PQtransactionStatus(connection_);
  }
  [[nodiscard]] PGconn* native() const { return connection_; }

 private:
  [[nodiscard]] static std::unique_ptr<Connection> open_one(
      const ConnectionSettings& settings, const std::stop_token& stop,
      const ConnectOptions& options, std::chrono::steady_clock::time_point give_up_at);
  class CancelRequest;
  class Call;
  struct Pipeline;
  Connection(PGconn* connection, bool owned);

  void send(const Command& command);
  void send_all(Pipeline& pipeline);
  void receive_all(Pipeline& pipeline, Call& call);
  void send_copy_data(const Command& command, std::string_view data, Call& call);
  /// A name belongs to the text that was prepared first under it. The same name with another text
  /// (a borrowed transaction with another schema) runs without being prepared.
  enum class Preparation { none, first_use, done };
  [[nodiscard]] Preparation preparation_of(const Command& command) const;
  Result wait_for_last_result(const Command& command, Call& call);
  void refuse_copy(const Result& result);
  [[noreturn]] void fail(const Command& command, const Result* result);

  PGconn* connection_;
  bool owned_;
  bool broken_ = false;
  bool abandoned_ = false;  // a call ended without an answer of the server
  core::OwnerProcess process_;
  int wake_fd_ = -1;
  std::unordered_map<std::string, std::string> prepared_;  // name → text
};

}  // namespace dovetail::postgres
