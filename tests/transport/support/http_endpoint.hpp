// An endpoint of webhooks: a small HTTP server on loopback, with or without TLS.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dovetail/server.hpp"

namespace dovetail::testing {

struct EndpointRequest {
  std::string method{};
  std::string target{};
  std::map<std::string, std::string> headers{};  ///< Names in lower case.
  std::string body{};
};

struct EndpointAnswer {
  int status = 200;
  std::map<std::string, std::string> headers{};
  std::string body{};
  /// Instead: these bytes, and then the end of the connection.
  std::optional<std::string> raw{};
};

struct EndpointOptions {
  ServerTls tls{};
  std::uint16_t port = 0;  ///< Zero: a free one.
};

class HttpEndpoint {
 public:
  using Handler = std::function<EndpointAnswer(const EndpointRequest&)>;

  using Options = EndpointOptions;

  /// `handler` is called by one thread for each connection.
  explicit HttpEndpoint(Handler handler, Options options = {});
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// `http://127.0.0.1:PORT/hook`, or https.
  [[nodiscard]] std::string url(const std::string& host = "127.0.0.1",
                                const std::string& path = "/hook") const;
  /// The requests up to now.
  [[nodiscard]] std::vector<EndpointRequest> received() const;
  /// The number of connections that were accepted.
  [[nodiscard]] int connections() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::testing
