// Finds topics that no instance handles, for the background service and for the public call.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "dovetail/instance.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::instance {

inline constexpr int most_instances = 10'000;  // read at once

/// The topics of `due` that none of `instances` handles. It does no I/O.
[[nodiscard]] std::vector<UnhandledTopic> unhandled(std::span<const InstanceInfo> instances,
                                                    std::string_view queue,
                                                    std::span<const storage::DueTopic> due);

/// Reads the front of a queue. If messages wait there, reads the instances, too.
[[nodiscard]] std::vector<UnhandledTopic> find_unhandled(storage::Database& database,
                                                         storage::QueueOperator& store,
                                                         std::string_view queue,
                                                         const UnhandledTopicsRequest& request,
                                                         const storage::ReadOptions& options);

/// Sorts by waiting time, the longest first.
void sort_by_wait(std::vector<UnhandledTopic>& topics);

}  // namespace dovetail::instance
