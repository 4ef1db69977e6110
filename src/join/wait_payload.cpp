#include "join/wait_payload.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/require.hpp"

namespace dovetail {
namespace join {
namespace {

using Json = nlohmann::json;

/// Treats join_id, joinId and JoinId as the same name.
std::string plain(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c != '_') out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

std::optional<std::string> text(const Json& object, std::string_view key) {
  for (const auto& [name, value] : object.items()) {
    if (plain(name) != plain(key) || value.is_null()) continue;
    if (!value.is_string()) throw std::invalid_argument(std::string{key} + " must be a string");
    return value.get<std::string>();
  }
  return std::nullopt;
}

bool flag(const Json& object, std::string_view key, bool absent) {
  for (const auto& [name, value] : object.items()) {
    if (plain(name) != plain(key) || value.is_null()) continue;
    if (!value.is_boolean())
      throw std::invalid_argument(std::string{key} + " must be true or false");
    return value.get<bool>();
  }
  return absent;
}

}  // namespace

WaitPayload parse_wait_payload(std::string_view json) {
  const auto object = Json::parse(json, nullptr, false);
  if (!object.is_object())
    throw std::invalid_argument("the payload of a waiting message must be a JSON object");
  const auto id = JoinId::parse(text(object, "join_id").value_or(""));
  if (!id || id->is_nil()) throw std::invalid_argument("join_id must be the id of a join");
  WaitPayload payload{*id, {}};
  auto& continuation = payload.continuation;
  continuation.fail_if_any_step_failed = flag(object, "fail_if_any_step_failed", true);
  continuation.on_complete_topic = text(object, "on_complete_topic").value_or("");
  continuation.on_complete_payload = text(object, "on_complete_payload").value_or("");
  continuation.on_fail_topic = text(object, "on_fail_topic");
  if (continuation.on_fail_topic == "") continuation.on_fail_topic.reset();
  continuation.on_fail_payload = text(object, "on_fail_payload");
  require_continuation(continuation);
  return payload;
}

void require_continuation(const Continuation& continuation) {
  if (continuation.on_complete_topic.empty())
    throw std::invalid_argument("on_complete_topic must not be empty");
  core::require_length("on_complete_topic", continuation.on_complete_topic, 255);
  core::require_text("on_complete_payload", continuation.on_complete_payload);
  if (continuation.on_fail_topic == "")
    throw std::invalid_argument("on_fail_topic must not be empty");
  if (continuation.on_fail_topic)
    core::require_length("on_fail_topic", *continuation.on_fail_topic, 255);
  if (continuation.on_fail_payload)
    core::require_text("on_fail_payload", *continuation.on_fail_payload);
}

}  // namespace join

std::string to_payload(JoinId join, const Continuation& continuation) {
  if (join.is_nil()) throw std::invalid_argument("join must not be the nil UUID");
  join::require_continuation(continuation);
  nlohmann::json object{{"join_id", join.to_string()},
                        {"fail_if_any_step_failed", continuation.fail_if_any_step_failed},
                        {"on_complete_topic", continuation.on_complete_topic},
                        {"on_complete_payload", continuation.on_complete_payload}};
  if (continuation.on_fail_topic) object["on_fail_topic"] = *continuation.on_fail_topic;
  if (continuation.on_fail_payload) object["on_fail_payload"] = *continuation.on_fail_payload;
  return object.dump();
}

}  // namespace dovetail
