// The head of a request as Boost.Beast parsed it.
#pragma once

#include <boost/beast/http/message.hpp>
#include <string>

#include "server/request.hpp"

namespace dovetail::server::http {

[[nodiscard]] RequestHead head_of(const boost::beast::http::request_header<>& message,
                                  const std::string& peer);

/// A refusal of the Transfer-Encoding.
struct BadTransfer {
  int status = 0;  ///< Zero: there is no Transfer-Encoding, or it is `chunked`.
  const char* detail = "";
};

/// The parser ignores encodings that it does not know. The body would then be taken for the next
/// request.
[[nodiscard]] BadTransfer bad_transfer_of(const boost::beast::http::request_header<>& message);

}  // namespace dovetail::server::http
