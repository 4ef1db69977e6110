// Topics that nobody handles, as the background service and the public call look for them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "dovetail/instance.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::instance {

inline constexpr int most_instances = 10'000;  // read at once

/// Those of `due` that none of `instances` handles. No I/O.
[[nodiscard]] std::vector<UnhandledTopic> unhandled(std::span<const InstanceInfo> instances,
                                                    std::string_view queue,
                                                    std::span<const storage::DueTopic> due);

/// Reads the front of one queue and, if anything waits there, the instances.
[[nodiscard]] std::vector<UnhandledTopic> find_unhandled(storage::Database& database,
                                                         storage::QueueOperator& store,
                                                         std::string_view queue,
                                                         const UnhandledTopicsRequest& request,
                                                         const storage::ReadOptions& options);

/// The longest wait first.
void sort_by_wait(std::vector<UnhandledTopic>& topics);

}  // namespace dovetail::instance
