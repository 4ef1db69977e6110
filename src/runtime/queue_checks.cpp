#include "runtime/queue_checks.hpp"

#include <algorithm>
#include <iterator>

#include "core/text.hpp"
#include "instance/unhandled.hpp"
#include "runtime/health_grades.hpp"
#include "storage/queue_names.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::runtime {
namespace {

using storage::ReadOptions;

constexpr int most_blocked_streams = 1'000;  // that are counted
/// Messages that a search for the oldest one reads, for each priority: those in progress and those
/// of paused topics may be before it.
constexpr int oldest_scan = 10'000;
constexpr std::int64_t most_counted = 1'000'000;

std::vector<storage::DueTopic> due_topics(Node& node, std::string_view queue,
                                          std::chrono::microseconds waiting, int scan_limit,
                                          const ReadOptions& options) {
  auto& database = node.database();
  std::vector<storage::DueTopic> topics;
  database.read(
      [&](storage::ReadSession& session) {
        topics = database.queue(queue).operations.due_topics(session, waiting, scan_limit);
      },
      options);
  return topics;
}

/// As far as the limits need it: the count of `topics` is at most `limit`.
std::int64_t total_of(const std::vector<storage::DueTopic>& topics) {
  std::int64_t total = 0;
  for (const auto& each : topics) total += each.seen;
  return total;
}

/// One more than the greatest limit that can be exceeded.
int countable(const HealthCounts& limits) {
  const auto greatest =
      limits.unhealthy == HealthCounts::never ? limits.degraded : limits.unhealthy;
  return static_cast<int>(std::clamp<std::int64_t>(greatest, 0, most_counted - 1) + 1);
}

/// "10001", or "50001+" for a count that ended at its limit.
std::string shown(std::int64_t count, int limit) {
  return std::to_string(std::min<std::int64_t>(count, limit)) + (count >= limit ? "+" : "");
}

HealthResult check_oldest(Node& node, std::string_view queue, const ReadOptions& options) {
  const auto& limits = node.options().health.oldest_due;
  const auto topics = due_topics(node, queue, limits.degraded, oldest_scan, options);
  if (topics.empty()) return {};
  const auto& oldest = *std::ranges::max_element(topics, {}, &storage::DueTopic::oldest_wait);
  HealthResult result{.status = grade(oldest.oldest_wait, limits),
                      .data = {{"oldest_due_seconds", in_seconds(oldest.oldest_wait)},
                               {"topic", core::printable(oldest.topic)}}};
  result.description = "a message of the topic " + core::printable(oldest.topic) +
                       " has been due for " + in_seconds(oldest.oldest_wait) + " s";
  return result;
}

HealthResult check_ready(Node& node, std::string_view queue, const ReadOptions& options) {
  const auto& limits = node.options().health.ready_messages;
  const auto limit = countable(limits);
  const auto count = total_of(due_topics(node, queue, {}, limit, options));
  auto result = counted("ready", count, limits, shown(count, limit) + " messages wait for workers");
  result.data["ready"] = shown(count, limit);
  return result;
}

}  // namespace

HealthResult check_outbox_oldest(Node& node, const ReadOptions& options) {
  return check_oldest(node, storage::queue_names::outbox, options);
}

HealthResult check_inbox_oldest(Node& node, const ReadOptions& options) {
  return check_oldest(node, storage::queue_names::inbox, options);
}

HealthResult check_outbox_ready(Node& node, const ReadOptions& options) {
  return check_ready(node, storage::queue_names::outbox, options);
}

HealthResult check_inbox_ready(Node& node, const ReadOptions& options) {
  return check_ready(node, storage::queue_names::inbox, options);
}

HealthResult check_late_timers(Node& node, const ReadOptions& options) {
  const auto& health = node.options().health;
  const auto limit = countable(health.late_timers);
  const auto late =
      due_topics(node, storage::queue_names::timers, health.timer_lateness, limit, options);
  const auto count = total_of(late);
  auto result = counted("late", count, health.late_timers,
                        shown(count, limit) + " timers are late by more than " +
                            in_seconds(health.timer_lateness) +
                            " s: no process fires timers, or it cannot keep up");
  result.data["late"] = shown(count, limit);
  return result;
}

HealthResult check_topics(Node& node, const ReadOptions& options) {
  auto& database = node.database();
  std::vector<UnhandledTopic> unhandled;
  for (const auto* queue : {"outbox", "inbox"}) {
    std::ranges::move(instance::find_unhandled(database, database.queue(queue).operations, queue,
                                               UnhandledTopicsRequest{}, options),
                      std::back_inserter(unhandled));
  }
  instance::sort_by_wait(unhandled);
  std::vector<std::string> topics;
  topics.reserve(unhandled.size());
  for (const auto& each : unhandled) {
    topics.push_back(each.queue + " " + core::printable(each.topic) + " (" +
                     std::to_string(each.seen) + " due, for up to " + in_seconds(each.oldest_wait) +
                     " s)");
  }
  return counted("unhandled", static_cast<std::int64_t>(topics.size()),
                 node.options().health.unhandled_topics, "no instance handles " + listed(topics));
}

HealthResult check_streams(Node& node, const ReadOptions& options) {
  std::vector<std::string> blocked;
  for (const auto& queue : node.queues()) {
    if (!queue.has_handlers) continue;
    const auto& name = queue.queue->name();
    node.database().read(
        [&](storage::ReadSession& session) {
          for (const auto& stream : node.database().queue(name).operations.streams(
                   session, {.size = most_blocked_streams, .only_blocked = true})) {
            blocked.push_back(name + " " + core::printable(stream.stream));
          }
        },
        options);
  }
  return counted("blocked", static_cast<std::int64_t>(blocked.size()),
                 node.options().health.blocked_streams,
                 std::to_string(blocked.size()) + " blocked streams: " + listed(blocked));
}

}  // namespace dovetail::runtime
