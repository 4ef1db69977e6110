#include "server/api/answer.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "server/api/redact.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

constexpr std::int64_t most_counted = 10'000;

/// The fields of src/json whose numbers grow without a limit.
constexpr auto wide_numbers = std::to_array<std::string_view>(
    {"token", "position", "head", "lag", "version", "first_version", "epoch", "upto"});

void widen(ordered_json& value) {
  if (value.is_array()) {
    for (auto& each : value) widen(each);
    return;
  }
  if (!value.is_object()) return;
  for (auto& [name, each] : value.items()) {
    if (each.is_number_integer() && std::ranges::find(wide_numbers, name) != wide_numbers.end()) {
      each = std::to_string(each.get<std::int64_t>());
    } else {
      widen(each);
    }
  }
}

}  // namespace

Response answer(ordered_json value, int status) {
  widen(value);
  using Handling = ordered_json::error_handler_t;
  return {.status = status, .body = value.dump(-1, ' ', false, Handling::replace)};
}

void PayloadView::apply(ordered_json& value, const std::string& name) const {
  const auto found = value.find(name);
  if (found == value.end()) return;
  if (!shown) {
    value.erase(name);
  } else if (found->is_string()) {
    *found = redacted(found->get<std::string>(), *redact);
  }
}

void PayloadView::apply_headers(ordered_json& value) const {
  const auto found = value.find("headers");
  if (found == value.end()) return;
  for (auto& [name, each] : found->items()) {
    if (is_redacted(name, *redact)) each = redacted_mark;
  }
}

bool sees_payloads(const Api& api, const Request& request) {
  return request.identity.role >= api.options.payload_role;
}

PayloadView payload_view(const Api& api, const Request& request) {
  const auto text = request.query_value("payload").value_or("false");
  if (text != "true" && text != "false")
    throw std::invalid_argument("payload must be true or false, got \"" + text + "\"");
  const bool shown = text == "true";
  if (shown && !sees_payloads(api, request)) {
    throw Problem(403, "payloads are shown to the role " +
                           std::string{to_string(api.options.payload_role)} +
                           ": leave payload=true out");
  }
  return {.shown = shown, .redact = &api.options.redact};
}

ordered_json message_json(const StoredMessage& stored, const PayloadView& view) {
  auto value = json::to_json(stored);
  view.apply_headers(value);
  if (view.shown) {
    value["payload"] = stored.message.payload;
    view.apply(value, "payload");
  }
  return value;
}

ordered_json unhandled_json(Platform& platform) {
  constexpr std::size_t most = 100;
  auto topics = platform.instances().unhandled_topics();
  topics.resize(std::min(topics.size(), most));
  return json::to_json_array(topics);
}

ordered_json capped_counts(WorkQueue& queue) {
  auto value = json::to_json(queue.counts(most_counted));
  auto capped = ordered_json::array();
  for (const auto* name : {"ready", "scheduled", "in_progress", "done", "failed", "paused"}) {
    if (value[name].get<std::int64_t>() >= most_counted) capped.push_back(name);
  }
  value["capped"] = std::move(capped);
  return value;
}

}  // namespace dovetail::server::api
