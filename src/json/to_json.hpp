// The library's values as JSON, for the command and for the HTTP server.
//
// Guarantees
//   * A field has the same name and the same form in every document.
//   * All fields are always present, in the same order. An absent value is null.
//   * Times are strings in the format of to_string(WallTime). Durations are whole milliseconds, and
//     the names of their fields end with `_ms`.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dovetail/dovetail.hpp"

namespace dovetail::json {

/// With the payload.
[[nodiscard]] nlohmann::ordered_json to_json(const ClaimedMessage& claimed);
/// Without the payload and the failures: lists do not read them.
[[nodiscard]] nlohmann::ordered_json to_json(const StoredMessage& stored);
[[nodiscard]] nlohmann::ordered_json to_json(const FailedAttempt& failure);
[[nodiscard]] nlohmann::ordered_json to_json(const QueueCounts& counts);
[[nodiscard]] nlohmann::ordered_json to_json(const PausedTopic& paused);
[[nodiscard]] nlohmann::ordered_json to_json(const StreamInfo& info);
[[nodiscard]] nlohmann::ordered_json to_json(const DeadLetterGroup& group);
[[nodiscard]] nlohmann::ordered_json to_json(const DeadLetterSummary& summary);
/// A page of dead letters. `full`: there may be more after the last one.
[[nodiscard]] nlohmann::ordered_json dead_letter_page(const std::vector<StoredMessage>& letters,
                                                      bool full);
/// The answer of --dry-run: the number of dead letters that `verb` (replay, purge) would change,
/// and the ids of the first of them.
[[nodiscard]] nlohmann::ordered_json dry_run_answer(const std::string& verb, std::size_t count,
                                                    const std::vector<StoredMessage>& first);
/// A page of streams. `full`: there may be more after the last one.
[[nodiscard]] nlohmann::ordered_json stream_page(const std::vector<StreamInfo>& streams, bool full);

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

[[nodiscard]] nlohmann::ordered_json to_json(const Event& event);
[[nodiscard]] nlohmann::ordered_json to_json(const EventStream& stream);
[[nodiscard]] nlohmann::ordered_json to_json(const SubscriptionStatus& status);
[[nodiscard]] nlohmann::ordered_json to_json(const SubscriptionPart& part);
[[nodiscard]] nlohmann::ordered_json to_json(const ParkedEvent& parked);

[[nodiscard]] nlohmann::ordered_json to_json(const InstanceInfo& instance);
[[nodiscard]] nlohmann::ordered_json to_json(const UnhandledTopic& topic);
[[nodiscard]] nlohmann::ordered_json to_json(const TransportInfo& transport);

[[nodiscard]] nlohmann::ordered_json to_json(const HealthCheck& check);
/// The durations are milliseconds with a fraction.
[[nodiscard]] nlohmann::ordered_json to_json(const HealthReport& report);

template <class Values>
[[nodiscard]] nlohmann::ordered_json to_json_array(const Values& values) {
  auto array = nlohmann::ordered_json::array();
  for (const auto& value : values) array.push_back(to_json(value));
  return array;
}

}  // namespace dovetail::json
