// Connections, limits and time limits of HTTP/1.1. This folder is the only user of Boost.Beast.
//
// One thread serves all connections. It parses and writes; it never calls the database.
//
// Threads: start() and stop() are called by one thread at a time; the rest by any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "dovetail/log.hpp"
#include "server/http/service.hpp"

namespace dovetail::server::http {

struct HttpOptions {
  std::string address{};
  std::uint16_t port = 0;
  ServerLimits limits{};
  ServerTls tls{};
};

/// Whether `address` is an IP address, and of the loopback interface.
[[nodiscard]] bool is_ip_address(const std::string& address);
[[nodiscard]] bool is_loopback(const std::string& address);

class HttpServer {
 public:
  /// `service` must outlive it.
  HttpServer(HttpOptions options, Service& service, Logger log);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  /// Throws std::system_error that names the address, and std::invalid_argument that names the file
  /// of TLS that cannot be used.
  void start();
  /// See Server::stop().
  bool stop(std::chrono::milliseconds deadline);
  [[nodiscard]] std::uint16_t port() const;

  /// New connections use these files of TLS from now on. Throws like start().
  void replace_tls(const ServerTls& tls);

  /// Writes an event to every stream. A reader that has not received earlier ones is disconnected.
  void broadcast(std::string event);
  /// The number of open streams.
  [[nodiscard]] std::size_t streams() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::server::http
