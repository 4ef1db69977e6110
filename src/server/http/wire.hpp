// Responses as bytes.
#pragma once

#include <string>

#include "server/request.hpp"

namespace dovetail::server::http {

struct WireForm {
  bool without_body = false;  ///< The answer to HEAD.
  bool keep_alive = true;
  bool without_length = false;  ///< The end of the connection is the end of the answer.
};

/// The bytes of an answer. Line breaks and other control characters in values of headers become
/// spaces.
[[nodiscard]] std::string bytes_of(const Response& response, const WireForm& form);

}  // namespace dovetail::server::http
