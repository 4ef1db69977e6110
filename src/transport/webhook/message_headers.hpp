// The headers of a webhook, besides those of its signature: CloudEvents 1.0 in binary mode.
#pragma once

#include <string_view>

#include "dovetail/queue.hpp"
#include "dovetail/transport.hpp"

namespace dovetail::transport::webhook {

/// The attributes of CloudEvents as `ce-…`, the content type, and the headers of the message under
/// their own names. Left out: headers that belong to HTTP itself (`host`, `content-length`, …) or
/// to the signature (`webhook-…`).
///
/// The content type is the header `content-type` of the message. If there is none:
/// `application/json` for JSON, and plain text for everything else.
[[nodiscard]] Headers message_headers(const Message& message, std::string_view source);

/// The message in a received request. Names of headers are in lower case. Its id is the
/// `webhook-id`; its topic is empty without a `ce-type`. Headers that belong to HTTP, to proxies or
/// to the signature are left out.
[[nodiscard]] IncomingMessage received_message(const Headers& headers, std::string body);

}  // namespace dovetail::transport::webhook
