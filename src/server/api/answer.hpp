// Answers: JSON whose large numbers are strings, pages, and payloads without secrets.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "json/to_json.hpp"
#include "server/api/api.hpp"

namespace dovetail::server::api {

using nlohmann::ordered_json;

/// Writes 64-bit numbers that may exceed 2^53 (positions, versions, tokens) as strings.
[[nodiscard]] Response answer(ordered_json value, int status = 200);

/// Drops the element that shows that there is a next page. Returns whether there was one.
template <class Values>
bool drop_last(Values& values, int limit) {
  if (values.size() <= static_cast<std::size_t>(limit)) return false;
  values.pop_back();
  return true;
}

/// Removes the fields that belong to payloads, or shows them redacted.
struct PayloadView {
  bool shown = false;
  const std::vector<std::string>* redact = nullptr;

  /// The payload field `name` of `value`.
  void apply(ordered_json& value, const std::string& name) const;
  /// Redacts the headers of a message.
  void apply_headers(ordered_json& value) const;
};

/// What the request may see. Throws Problem 403 if it asks for payloads and the role does not see
/// them.
[[nodiscard]] PayloadView payload_view(const Api& api, const Request& request);

/// Whether a caller of this role sees payloads.
[[nodiscard]] bool sees_payloads(const Api& api, const Request& request);

/// A message of a list, or with its payload if the view shows it.
[[nodiscard]] ordered_json message_json(const StoredMessage& stored, const PayloadView& view);

/// The topics that no instance handles, those that wait longest first; at most 100.
[[nodiscard]] ordered_json unhandled_json(Platform& platform);

/// Counts up to 10,000. `capped` names those that may be higher.
[[nodiscard]] ordered_json capped_counts(WorkQueue& queue);

}  // namespace dovetail::server::api
