// Messages, timers, jobs, joins, leases and instances as JSON: a field has the same name in every
// answer.
#pragma once

#include <nlohmann/json.hpp>

#include "dovetail/dovetail.hpp"

namespace dovetail::cli {

[[nodiscard]] nlohmann::ordered_json to_json(const ClaimedMessage& claimed);

/// Without the payload, which lists do not have.
[[nodiscard]] nlohmann::ordered_json to_json(const StoredMessage& stored);

[[nodiscard]] nlohmann::ordered_json to_json(const InboxEntry& entry);
[[nodiscard]] nlohmann::ordered_json to_json(const Timer& timer);
[[nodiscard]] nlohmann::ordered_json to_json(const Job& job);
[[nodiscard]] nlohmann::ordered_json to_json(const JobRun& run);
[[nodiscard]] nlohmann::ordered_json to_json(const Join& join);
[[nodiscard]] nlohmann::ordered_json to_json(const JoinMember& member);
[[nodiscard]] nlohmann::ordered_json to_json(const Lease& lease);
[[nodiscard]] nlohmann::ordered_json to_json(const InstanceInfo& instance);

}  // namespace dovetail::cli
