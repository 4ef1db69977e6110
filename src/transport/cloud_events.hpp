// CloudEvents 1.0 in binary mode: the attributes of an event are headers of the protocol, beside
// the headers of the user, and the payload is the body.
//
//   message id ↔ id               created_at     ↔ time
//   topic      ↔ type             stream         ↔ partitionkey (extension)
//   platform   ↔ source           correlation id ↔ correlationid (extension)
//
// Headers of the user keep their names. So `traceparent` passes through.
#pragma once

#include <string>
#include <string_view>

#include "dovetail/transport.hpp"

namespace dovetail::transport {

/// How a protocol writes headers.
struct HeaderRules {
  std::string prefix = "ce-";  ///< Of the attributes: `ce-id`, `ce_id`, `cloudEvents_id`.
  /// Values are ASCII: other characters, spaces, `"` and `%` are percent-encoded. Names are tokens
  /// as in HTTP: other characters and `%` are percent-encoded.
  bool percent_encode = true;
};

/// The headers of a message: the attributes, and the headers of the user. Headers of the user whose
/// names begin with the prefix are left out if an attribute has the name.
[[nodiscard]] Headers cloud_event_headers(const Message& message, std::string_view source,
                                          const HeaderRules& rules = {});

/// Takes the attributes out of `headers`. Returns false if there is no `specversion`: then it is no
/// CloudEvent, and only the headers of the message are set. Otherwise the id, the topic, the
/// stream, the correlation id and the headers of the message are set, as far as they are present.
/// `message.problem` is set for a version other than 1.x.
///
/// Names of attributes are compared without regard to case.
bool read_cloud_event(const Headers& headers, IncomingMessage& message,
                      const HeaderRules& rules = {});

/// The text with all bytes encoded that a header cannot have: see HeaderRules.
[[nodiscard]] std::string encoded_value(std::string_view text);
[[nodiscard]] std::string encoded_name(std::string_view text);
/// Decodes `%41`. A percent sign without two hexadecimal digits stays as it is.
[[nodiscard]] std::string decoded(std::string_view text);

/// Replaces `{topic}`, `{stream}` and `{correlation_id}` in a template such as `shop.{topic}`. A
/// message without a stream or correlation id has an empty text. Throws std::invalid_argument for
/// another name, or a brace without its partner.
[[nodiscard]] std::string filled(std::string_view pattern, const Message& message);

}  // namespace dovetail::transport
