// The base of tests of the server: an in-process Server on a Platform of both engines.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "dovetail/server.hpp"
#include "support/backend.hpp"
#include "support/http_client.hpp"

namespace dovetail::testing {

/// Options with a free port.
inline ServerOptions test_server_options() {
  ServerOptions options;
  options.port = 0;
  options.log_sink = null_log_sink();
  return options;
}

class ServerTest : public BackendTest {
 protected:
  ServerTest() : platform(backend.open()) {}

  void serve(ServerOptions options = test_server_options()) {
    server = std::make_unique<Server>(platform, std::move(options));
    server->start();
  }
  HttpAnswer get(const std::string& target, const std::vector<std::string>& lines = {}) {
    return http_get(server->port(), target, lines);
  }
  HttpAnswer ask(const std::string& method, const std::string& target,
                 const std::vector<std::string>& lines = {}, const std::string& body = {}) {
    return client().ask(method, target, lines, body);
  }
  [[nodiscard]] HttpClient client() const { return HttpClient(server->port()); }

  static nlohmann::json json_of(const HttpAnswer& answer) {
    return nlohmann::json::parse(answer.body, nullptr, false);
  }

  Platform platform;
  std::unique_ptr<Server> server;
};

/// Tests that need no database of both engines: on SQLite.
class SqliteServerTest : public ::testing::Test {
 protected:
  SqliteServerTest() : backend(BackendKind::sqlite), platform(backend.open()) {}

  void serve(ServerOptions options = test_server_options()) {
    server = std::make_unique<Server>(platform, std::move(options));
    server->start();
  }
  HttpAnswer get(const std::string& target, const std::vector<std::string>& lines = {}) {
    return http_get(server->port(), target, lines);
  }
  [[nodiscard]] HttpClient client() const { return HttpClient(server->port()); }

  Backend backend;
  Platform platform;
  std::unique_ptr<Server> server;
};

}  // namespace dovetail::testing
