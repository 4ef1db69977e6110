#include "runtime/health.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "event/component.hpp"
#include "instance/component.hpp"

namespace dovetail {

std::string_view to_string(HealthStatus status) {
  switch (status) {
    case HealthStatus::healthy:
      return "healthy";
    case HealthStatus::degraded:
      return "degraded";
    case HealthStatus::unhealthy:
      return "unhealthy";
  }
  return "unknown";
}

namespace runtime {
namespace {

constexpr std::size_t most_named = 5;      // examples in a message
constexpr int most_blocked_streams = 100;  // that are counted

std::string whole_seconds(std::chrono::microseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

/// "a, b, c and others"
std::string listed_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > most_named ? text + " and others" : text;
}

/// Each check returns its message, or nothing when all is well.
using CheckMessage = std::optional<std::string>;

CheckMessage check_clock(Node& node) {
  const auto behind = node.clock_check().behind();
  if (!behind) return std::nullopt;
  return "the database's clock was set back by " + whole_seconds(*behind) +
         ": messages and timers from before wait until it reaches their times again";
}

CheckMessage check_topics(Node& node) {
  std::vector<std::string> topics;
  for (const auto& each : node.get<instance::Component>().instances.unhandled_topics()) {
    topics.push_back(each.queue + " " + core::printable(each.topic) + " (" +
                     std::to_string(each.seen) + " due, for up to " +
                     whole_seconds(each.oldest_wait) + ")");
  }
  if (topics.empty()) return std::nullopt;
  return "no instance handles " + listed_names(topics);
}

CheckMessage check_streams(Node& node) {
  std::vector<std::string> blocked;
  for (const auto& queue : node.queues()) {
    if (!queue.has_handlers) continue;
    for (const auto& stream :
         queue.queue->streams({.size = most_blocked_streams, .only_blocked = true})) {
      blocked.push_back(queue.queue->name() + " " + core::printable(stream.stream));
    }
  }
  if (blocked.empty()) return std::nullopt;
  return std::to_string(blocked.size()) + " blocked streams: " + listed_names(blocked);
}

/// Why a subscription needs attention.
CheckMessage complaint_about(const SubscriptionStatus& status, std::chrono::milliseconds max_lag) {
  const auto name = core::printable(status.name);
  if (status.stopped_at) return name + " is stopped: " + status.last_error.value_or("");
  if (status.parked > 0) return name + " has " + std::to_string(status.parked) + " parked events";
  if (status.paused_at || status.lag_time.value_or(std::chrono::microseconds{0}) <= max_lag)
    return std::nullopt;
  return name + " is " + std::to_string(status.lag) + " positions and " +
         whole_seconds(*status.lag_time) + " behind";
}

CheckMessage check_subscriptions(Node& node) {
  std::vector<std::string> complaints;
  for (const auto& status : node.get<event::Component>().events.subscriptions().list()) {
    if (auto complaint = complaint_about(status, node.options().events.max_lag))
      complaints.push_back(*std::move(complaint));
  }
  if (complaints.empty()) return std::nullopt;
  return "subscriptions: " + listed_names(complaints);
}

struct HealthCheck {
  const char* name;
  CheckMessage (*run)(Node& node);
};
constexpr std::array<HealthCheck, 4> health_checks{{{"clock", check_clock},
                                                    {"topics", check_topics},
                                                    {"streams", check_streams},
                                                    {"subscriptions", check_subscriptions}}};

/// Returns the finding of a check, if it has one.
std::optional<HealthFinding> finding_of(const HealthCheck& check, Node& node) {
  try {
    if (auto message = check.run(node)) {
      return HealthFinding{check.name, HealthStatus::degraded, *std::move(message)};
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::permission) return std::nullopt;
    const auto* name = error.is_transient() ? "database" : check.name;
    return HealthFinding{name, HealthStatus::unhealthy, error.what()};
  }
  return std::nullopt;
}

}  // namespace

HealthReport check_health(Node& node, const std::vector<NamedHealth>& services) {
  HealthReport report;
  for (const auto& check : health_checks) {
    auto finding = finding_of(check, node);
    if (!finding) continue;
    const bool no_answer = finding->name == "database";
    report.findings.push_back(*std::move(finding));
    if (no_answer) break;  // the other checks would wait for it, too
  }
  for (const auto& [name, health] : services) {
    if (health.failures == 0) continue;
    report.findings.push_back(
        {"service." + name, HealthStatus::degraded,
         "failed " + std::to_string(health.failures) + " times in a row: " + health.last_error});
  }
  for (const auto& finding : report.findings) {
    report.status = std::max(report.status, finding.status);
  }
  return report;
}

}  // namespace runtime
}  // namespace dovetail
