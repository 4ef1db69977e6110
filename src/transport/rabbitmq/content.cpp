#include "transport/rabbitmq/content.hpp"

#include <utility>

namespace dovetail::transport::rabbitmq {
namespace {

/// The value of a header as text, if it has one.
std::optional<std::string> text_of(const amqp_field_value_t& value) {
  switch (value.kind) {
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
      return std::string{view_of(value.value.bytes)};
    case AMQP_FIELD_KIND_BOOLEAN:
      return value.value.boolean != 0 ? "true" : "false";
    case AMQP_FIELD_KIND_I8:
      return std::to_string(value.value.i8);
    case AMQP_FIELD_KIND_U8:
      return std::to_string(value.value.u8);
    case AMQP_FIELD_KIND_I16:
      return std::to_string(value.value.i16);
    case AMQP_FIELD_KIND_U16:
      return std::to_string(value.value.u16);
    case AMQP_FIELD_KIND_I32:
      return std::to_string(value.value.i32);
    case AMQP_FIELD_KIND_U32:
      return std::to_string(value.value.u32);
    case AMQP_FIELD_KIND_I64:
      return std::to_string(value.value.i64);
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP:
      return std::to_string(value.value.u64);
    default:
      return std::nullopt;  // tables and lists, such as the broker's x-death
  }
}

}  // namespace

void ContentReader::begin(const amqp_method_t& method) {
  content_ = {};
  if (method.id == AMQP_BASIC_RETURN_METHOD) {
    const auto& returned = *static_cast<amqp_basic_return_t*>(method.decoded);
    content_.returned = true;
    content_.error = {returned.reply_code, std::string{view_of(returned.reply_text)}};
  } else {
    content_.delivery_tag = static_cast<amqp_basic_deliver_t*>(method.decoded)->delivery_tag;
  }
}

void ContentReader::read_properties(const amqp_basic_properties_t& properties) {
  if ((properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0) {
    content_.message_id = view_of(properties.message_id);
  }
  if ((properties._flags & AMQP_BASIC_CORRELATION_ID_FLAG) != 0) {
    content_.correlation_id = view_of(properties.correlation_id);
  }
  if ((properties._flags & AMQP_BASIC_CONTENT_TYPE_FLAG) != 0) {
    content_.headers.emplace("content-type", view_of(properties.content_type));
  }
  if ((properties._flags & AMQP_BASIC_HEADERS_FLAG) == 0) return;
  for (int i = 0; i < properties.headers.num_entries; ++i) {
    const auto& entry = properties.headers.entries[i];
    if (auto text = text_of(entry.value)) {
      content_.headers.insert_or_assign(std::string{view_of(entry.key)}, std::move(*text));
    }
  }
}

std::optional<Content> ContentReader::take(const amqp_frame_t& frame) {
  if (frame.frame_type == AMQP_FRAME_METHOD) {
    begin(frame.payload.method);
    return std::nullopt;
  }
  if (frame.frame_type == AMQP_FRAME_HEADER) {
    missing_ = frame.payload.properties.body_size;
    read_properties(*static_cast<amqp_basic_properties_t*>(frame.payload.properties.decoded));
  } else {
    const auto part = view_of(frame.payload.body_fragment);
    content_.body += part;
    missing_ -= std::min<std::uint64_t>(missing_, part.size());
  }
  if (missing_ > 0) return std::nullopt;
  return std::exchange(content_, {});
}

}  // namespace dovetail::transport::rabbitmq
