// Errors as problem details (RFC 9457).
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>

#include "server/request.hpp"

namespace dovetail::server {

/// A handler throws it to answer with an error. `detail` says what is wrong and what to do.
class Problem : public std::runtime_error {
 public:
  /// `retry_after` tells the client when to try again; zero: not.
  Problem(int status, const std::string& detail, std::chrono::seconds retry_after = {})
      : std::runtime_error(detail), status_(status), retry_after_(retry_after) {}
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] std::chrono::seconds retry_after() const { return retry_after_; }

 private:
  int status_;
  std::chrono::seconds retry_after_;
};

/// `Not Found` for 404.
[[nodiscard]] std::string title_of(int status);

/// `urn:dovetail:problem:not-found` for 404. It does not change between versions.
[[nodiscard]] std::string type_of(int status);

/// {"type": type_of(status), "title": …, "status": …, "detail": …} as application/problem+json.
[[nodiscard]] Response problem(int status, const std::string& detail);
/// The same, with its Retry-After.
[[nodiscard]] Response problem(const Problem& error);

}  // namespace dovetail::server
