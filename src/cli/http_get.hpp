// A small HTTP client for `dovetail health --url`: one GET over plain HTTP, with a time limit.
#pragma once

#include <chrono>
#include <string>

namespace dovetail::cli {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

struct HttpRequest {
  std::string url;           ///< http://host[:port][/path]
  std::string path;          ///< Appended to the URL: /health/ready
  std::string bearer_token;  ///< Empty: none.
  std::chrono::milliseconds limit{5'000};
};

/// Throws std::invalid_argument for a URL that it cannot ask, and std::runtime_error, with the
/// reason, if there is no answer. A redirect is an answer.
[[nodiscard]] HttpAnswer http_get(const HttpRequest& request);

}  // namespace dovetail::cli
