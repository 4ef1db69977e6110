// One HTTP GET with a time limit, for `dovetail health --url`.
#pragma once

#include <chrono>
#include <string>

namespace dovetail::cli {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

struct HttpRequest {
  std::string url;           ///< http://host[:port][/path], or https://
  std::string path;          ///< Appended to the URL: /health/ready
  std::string bearer_token;  ///< Empty: none.
  std::string ca_file;       ///< Trusted certificates for https. Empty: those of the system.
  std::chrono::milliseconds limit{5'000};
};

/// Throws std::invalid_argument for a URL that it cannot ask, and std::runtime_error, with the
/// reason, if there is no answer. A redirect is an answer. No proxy is used.
[[nodiscard]] HttpAnswer http_get(const HttpRequest& request);

}  // namespace dovetail::cli
