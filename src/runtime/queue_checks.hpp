// The health checks of the queues. Each reads a bounded number of messages.
#pragma once

#include "dovetail/health.hpp"
#include "runtime/node.hpp"

namespace dovetail::runtime {

// Messages that failed, that are due later, that are in progress, and those of paused topics do not
// count.

/// How long the oldest message has been due.
[[nodiscard]] HealthResult check_outbox_oldest(Node& node, const storage::ReadOptions& options);
[[nodiscard]] HealthResult check_inbox_oldest(Node& node, const storage::ReadOptions& options);
/// How many messages are due.
[[nodiscard]] HealthResult check_outbox_ready(Node& node, const storage::ReadOptions& options);
[[nodiscard]] HealthResult check_inbox_ready(Node& node, const storage::ReadOptions& options);
[[nodiscard]] HealthResult check_late_timers(Node& node, const storage::ReadOptions& options);
/// Topics that no instance handles.
[[nodiscard]] HealthResult check_topics(Node& node, const storage::ReadOptions& options);
[[nodiscard]] HealthResult check_streams(Node& node, const storage::ReadOptions& options);

}  // namespace dovetail::runtime
