#include "server/http/head.hpp"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <cctype>

namespace dovetail::server::http {
namespace {

using boost::beast::http::field;

std::string name_of(const boost::beast::http::fields::value_type& header) {
  std::string lower{header.name_string()};
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

RequestHead head_of(const boost::beast::http::request_header<>& message, const std::string& peer) {
  RequestHead head{.method = std::string{message.method_string()},
                   .target = std::string{message.target()},
                   .peer = peer};
  for (const auto& each : message) {
    head.headers.emplace_back(name_of(each), std::string{each.value()});
  }
  return head;
}

BadTransfer bad_transfer_of(const boost::beast::http::request_header<>& message) {
  const auto encodings = message.count(field::transfer_encoding);
  if (encodings == 0) return {};
  if (message.version() < 11) return {400, "a request of HTTP/1.0 has no Transfer-Encoding"};
  if (encodings > 1) return {400, "a request has one Transfer-Encoding header"};
  if (!boost::beast::iequals(message[field::transfer_encoding], "chunked"))
    return {501, "the only Transfer-Encoding is chunked"};
  return {};
}

}  // namespace dovetail::server::http
