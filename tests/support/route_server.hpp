// A server with routes of the test, without a database.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "server/http/http_server.hpp"
#include "server/options.hpp"
#include "server/problem.hpp"
#include "server/router.hpp"
#include "support/http_client.hpp"

namespace dovetail::testing {

class RouteServer {
 public:
  explicit RouteServer(ServerOptions options) : options_(std::move(options)) {
    options_.port = 0;
    server::checked(options_);
  }
  ~RouteServer() { stop(); }
  RouteServer(const RouteServer&) = delete;
  RouteServer& operator=(const RouteServer&) = delete;

  /// Adds a route before start().
  void add(server::Route route) { routes_.add(std::move(route)); }
  void start() {
    router_ = std::make_unique<server::Router>(routes_, options_, auth_, Logger{});
    http_ = std::make_unique<server::http::HttpServer>(
        server::http::HttpOptions{options_.address, options_.port, options_.limits, options_.tls},
        *router_, Logger{});
    http_->start();
  }
  bool stop(std::chrono::milliseconds deadline = std::chrono::milliseconds{0}) {
    const bool all_answered = !http_ || http_->stop(deadline);
    router_.reset();
    return all_answered;
  }

  [[nodiscard]] std::uint16_t port() const { return http_->port(); }
  [[nodiscard]] HttpClient client() const { return HttpClient(port()); }
  [[nodiscard]] server::http::HttpServer& http() { return *http_; }

  HttpAnswer ask(const std::string& method, const std::string& target,
                 const std::vector<std::string>& lines = {}, const std::string& body = {}) {
    return client().ask(method, target, lines, body);
  }

 private:
  ServerOptions options_;
  server::RouteTable routes_;
  server::Authenticator auth_{options_.auth};
  std::unique_ptr<server::http::HttpServer> http_;
  std::unique_ptr<server::Router> router_;
};

/// Handlers wait at it until it opens.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] int waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

}  // namespace dovetail::testing
