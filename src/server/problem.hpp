// Errors as problem details (RFC 9457).
#pragma once

#include <stdexcept>
#include <string>

#include "server/request.hpp"

namespace dovetail::server {

/// A handler throws it to answer with an error. `detail` says what is wrong and what to do.
class Problem : public std::runtime_error {
 public:
  Problem(int status, const std::string& detail) : std::runtime_error(detail), status_(status) {}
  [[nodiscard]] int status() const { return status_; }

 private:
  int status_;
};

/// `Not Found` for 404.
[[nodiscard]] std::string title_of(int status);

/// `urn:dovetail:problem:not-found` for 404. It does not change between versions.
[[nodiscard]] std::string type_of(int status);

/// {"type": type_of(status), "title": …, "status": …, "detail": …} as application/problem+json.
[[nodiscard]] Response problem(int status, const std::string& detail);

}  // namespace dovetail::server
