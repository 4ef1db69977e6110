// The library's values as JSON, for the command and for the HTTP server.
//
// Guarantees
//   * A field has the same name and the same form in every document.
//   * All fields are always present, in the same order. An absent value is null.
//   * Times are strings in the format of to_string(WallTime). Durations are whole milliseconds, and
//     the names of their fields end with `_ms`.
#pragma once

#include <nlohmann/json.hpp>

#include "dovetail/dovetail.hpp"

namespace dovetail::json {

/// With the payload.
[[nodiscard]] nlohmann::ordered_json to_json(const ClaimedMessage& claimed);
/// Without the payload: lists do not read it.
[[nodiscard]] nlohmann::ordered_json to_json(const StoredMessage& stored);
[[nodiscard]] nlohmann::ordered_json to_json(const QueueCounts& counts);
[[nodiscard]] nlohmann::ordered_json to_json(const PausedTopic& paused);
[[nodiscard]] nlohmann::ordered_json to_json(const StreamInfo& info);
[[nodiscard]] nlohmann::ordered_json to_json(const DeadLetterGroup& group);
[[nodiscard]] nlohmann::ordered_json to_json(const DeadLetterSummary& summary);

[[nodiscard]] nlohmann::ordered_json to_json(const InboxEntry& entry);
[[nodiscard]] nlohmann::ordered_json to_json(const InboxCounts& counts);

[[nodiscard]] nlohmann::ordered_json to_json(const Timer& timer);
[[nodiscard]] nlohmann::ordered_json to_json(const Job& job);
[[nodiscard]] nlohmann::ordered_json to_json(const JobRun& run);

[[nodiscard]] nlohmann::ordered_json to_json(const FanoutPolicy& policy);
[[nodiscard]] nlohmann::ordered_json to_json(const FanoutCursor& cursor);

[[nodiscard]] nlohmann::ordered_json to_json(const Join& join);
[[nodiscard]] nlohmann::ordered_json to_json(const JoinMember& member);

[[nodiscard]] nlohmann::ordered_json to_json(const Lease& lease);

[[nodiscard]] nlohmann::ordered_json to_json(const InstanceInfo& instance);
[[nodiscard]] nlohmann::ordered_json to_json(const UnhandledTopic& topic);

template <class Values>
[[nodiscard]] nlohmann::ordered_json to_json_array(const Values& values) {
  auto array = nlohmann::ordered_json::array();
  for (const auto& value : values) array.push_back(to_json(value));
  return array;
}

}  // namespace dovetail::json
