// Server: health, an API and live events over HTTP, beside a Platform or a PlatformGroup of the
// same process.
//
//   auto platform = dovetail::Platform::open("sqlite:orders.db");
//   platform.start();
//   dovetail::Server server(platform, {.port = 8420});
//   server.start();                          // http://127.0.0.1:8420/health
//
// It is a library of its own: link dovetail::server (built with DOVETAIL_SERVER=ON). The command
// `dovetail server` is the same server.
//
// Guarantees
//   * Memory is bounded: by the limits below, whatever clients send. A client that is slow, or that
//     sends too much, is refused or disconnected.
//   * Calls of the database run in their own threads. `/health…` has threads of its own: slow
//     requests do not delay it.
//   * `/health/live` never touches the database.
//   * An address other than loopback without authentication is refused, and so are requests whose
//     Host header is not allowed. Each route has a role; see docs/server.md.
//   * Answers, errors and logs contain no tokens, passwords or hashes.
//
// Threads: start() and stop() are called by one thread at a time. The Platform or the group must
// outlive the Server.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/log.hpp"

namespace dovetail {

class Platform;
class PlatformGroup;

/// What a caller may do. Ordered: a greater role may do everything that a smaller one may.
enum class ServerRole : std::uint8_t {
  viewer,     ///< Reads.
  operator_,  ///< Also replays, cancels, pauses, triggers: the daily work. Its word is `operator`.
  admin,      ///< Also purges and other changes that lose data.
};

[[nodiscard]] std::string_view to_string(ServerRole role);

/// Limits of what clients may send and hold. Whoever exceeds one gets a 4xx or 503 answer, or is
/// disconnected.
struct ServerLimits {
  std::size_t max_header_bytes = std::size_t{16} << 10;  ///< 1 KiB to 1 MiB: line and headers.
  std::size_t max_body_bytes = std::size_t{1} << 20;     ///< 1 KiB to 64 MiB.
  /// Bodies that are received at the same time: 1 to 10,000. More requests with a body get 503.
  std::size_t max_bodies = 64;
  /// Open connections: 10 to 100,000. The limit of open files of the process may be lower: the
  /// server uses at most half of it. When the limit is reached, a new connection replaces the one
  /// that has waited longest for a request.
  std::size_t max_connections = 4'000;
  /// The same, for the connections of one address.
  std::size_t max_connections_per_address = 1'000;
  /// Requests that wait for a thread: 1 to 100,000. More requests get 503.
  std::size_t max_waiting_requests = 256;
  /// Streams of `/api/v1/events`: 1 to 100,000. More get 503. A reader that is too slow is
  /// disconnected.
  std::size_t max_event_streams = 256;
  /// The time for a complete header after its first byte, or after the connection was opened.
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{30'000};   ///< For a complete body.
  std::chrono::milliseconds reply_timeout{30'000};  ///< For the answer of a handler; then 503.
  std::chrono::milliseconds write_timeout{30'000};  ///< For the client to receive an answer.
  std::chrono::milliseconds idle_timeout{60'000};   ///< Between two requests of a connection.
};

/// A caller that sends `Authorization: Bearer TOKEN`.
struct ServerToken {
  std::string name{};    ///< For the audit. 1 to 100 characters.
  std::string sha256{};  ///< The SHA-256 of the token, as 64 hexadecimal digits.
  ServerRole role = ServerRole::viewer;
};

/// A person who logs in with a password (`POST /api/v1/session`).
struct ServerUser {
  std::string name{};           ///< 1 to 100 characters.
  std::string password_hash{};  ///< As crypt(5) describes: `$6$…`, `$y$…`.
  ServerRole role = ServerRole::viewer;
};

/// With neither tokens nor users, everybody who reaches the server is an admin.
struct ServerAuth {
  std::vector<ServerToken> tokens{};
  std::vector<ServerUser> users{};
  std::chrono::seconds session_lifetime = std::chrono::hours{12};  ///< 1 s to 30 days.

  [[nodiscard]] bool is_on() const { return !tokens.empty() || !users.empty(); }
};

/// A sender of signed webhooks (webhook.hpp). `POST /webhooks/NAME` checks the signature, stores
/// the message in the inbox, and answers 200 after the commit. A message that is known gets the
/// same answer. No token or login is needed. It needs a build with DOVETAIL_WEBHOOK=ON.
struct ServerWebhook {
  /// 1 to 64 letters, digits, dots, hyphens or underscores: the end of the path, and the source of
  /// the messages in the inbox.
  std::string name{};
  std::string secret{};  ///< 1 to 10 secrets `whsec_…`, separated by white space.
  /// The topic of its messages. Empty: the header `ce-type` of each message.
  std::string topic{};
  /// How far the timestamp of a request may be from the time of the server: 1 s to 1 h.
  std::chrono::seconds tolerance = std::chrono::minutes{5};
  std::string database{};  ///< In a group: the key of the database.
};

/// Files in PEM format. Both empty: plain HTTP.
struct ServerTls {
  std::string certificate_file{};  ///< The certificate, and then those of its chain.
  std::string key_file{};

  [[nodiscard]] bool is_on() const { return !certificate_file.empty() || !key_file.empty(); }
};

struct ServerOptions {
  /// An IPv4 or IPv6 address. One that is not loopback needs `auth`.
  std::string address = "127.0.0.1";
  std::uint16_t port = 8420;  ///< Zero: a free port; see Server::port().
  /// The path under which a reverse proxy shows the server: `/dovetail`. Requests may have it or
  /// not. Empty: none.
  std::string base_path{};
  int threads = 4;  ///< Threads that answer requests, besides those of health: 1 to 64.
  ServerLimits limits{};
  ServerAuth auth{};
  ServerTls tls{};
  std::vector<ServerWebhook> webhooks{};
  /// The names that the Host header may have, without a port, besides IP addresses and localhost:
  /// `dovetail.example.com`. `*`: every name.
  std::vector<std::string> allowed_hosts{};
  /// A reverse proxy answers with HTTPS: cookies are marked as Secure. TLS implies it.
  bool secure_cookies = false;
  /// Refuses every request that changes data. Open the Platform with PlatformOptions::read_only,
  /// too.
  bool read_only = false;
  /// The interval of the events of `/api/v1/events`: 100 ms to 1 min.
  std::chrono::milliseconds event_interval{2'000};
  /// Fields of JSON payloads, and headers of messages, whose values are not shown. Compared without
  /// case.
  std::vector<std::string> redact{"password", "secret", "token", "authorization"};
  std::shared_ptr<LogSink> log_sink{};  ///< Absent: spdlog, warnings and errors to standard error.
};

class Server {
 public:
  /// Checks the options; opens nothing. Throws std::invalid_argument or std::out_of_range.
  explicit Server(Platform& platform, ServerOptions options = {});
  explicit Server(PlatformGroup& group, ServerOptions options = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Stops the server without waiting for requests, except for calls of the database under way.
  ~Server();

  /// Binds the address and answers requests from now on. Throws std::system_error when the address
  /// cannot be bound, std::invalid_argument when a file of TLS cannot be used, and InvalidOperation
  /// when the server was started before.
  void start();

  /// Accepts no more connections, ends idle ones and event streams, and waits up to `deadline` for
  /// the requests under way. Then it closes the rest. Returns whether all requests were answered.
  bool stop(std::chrono::milliseconds deadline = std::chrono::seconds{10});

  /// Takes over the tokens, the users, the webhooks, the allowed hosts and the files of TLS (which
  /// may have changed on disk), while the server runs. Other options are ignored: they need a new
  /// server. Throws std::invalid_argument, and then nothing has changed. Call it from one thread at
  /// a time, not during start() or stop().
  void reload(const ServerOptions& options);

  /// The port that is bound. Zero before start().
  [[nodiscard]] std::uint16_t port() const;
  /// Where the server answers: `http://127.0.0.1:8420`.
  [[nodiscard]] std::string url() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail
