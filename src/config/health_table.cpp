// The thresholds of health: [health].
#include <chrono>

#include "config/section.hpp"

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

/// `key_degraded` and `key_unhealthy`.
void add_counts(Section& health, const std::string& key, HealthCounts HealthOptions::*member,
                const std::string& what) {
  const auto field = [member](auto threshold) {
    return within(&Settings::platform, &PlatformOptions::health, member, threshold);
  };
  health.limit(key + "_degraded", field(&HealthCounts::degraded), "Degraded above this: " + what);
  health.limit(key + "_unhealthy", field(&HealthCounts::unhealthy),
               "Unhealthy above this: " + what);
}

}  // namespace

void add_health(Table& table) {
  const auto field = [](auto... members) {
    return within(&Settings::platform, &PlatformOptions::health, members...);
  };
  Section health(table, "health");
  health.duration("cache", 0ms, 1h, field(&HealthOptions::cache), "How long a report is reused");
  health.duration("time_limit", 10ms, 1min, field(&HealthOptions::time_limit), "Limit of a report");
  health.duration("oldest_due_degraded", 0ms, 24h * 3650,
                  field(&HealthOptions::oldest_due, &HealthTimes::degraded),
                  "Degraded above this: wait of the oldest due message");
  health.duration("oldest_due_unhealthy", 0ms, 24h * 3650,
                  field(&HealthOptions::oldest_due, &HealthTimes::unhealthy),
                  "Unhealthy above this: wait of the oldest due message");
  add_counts(health, "ready_messages", &HealthOptions::ready_messages, "due messages of a queue");
  health.duration("timer_lateness", 0ms, 24h * 3650, field(&HealthOptions::timer_lateness),
                  "A timer that is later than this counts as late");
  add_counts(health, "late_timers", &HealthOptions::late_timers, "late timers");
  add_counts(health, "stuck_inbox_messages", &HealthOptions::stuck_inbox_messages,
             "stuck messages of the inbox");
  add_counts(health, "lease_renewal_failures", &HealthOptions::lease_renewal_failures,
             "failed renewals in a row");
  add_counts(health, "unhandled_topics", &HealthOptions::unhandled_topics,
             "topics that no instance handles");
  add_counts(health, "silent_instances", &HealthOptions::silent_instances,
             "instances without a heartbeat");
  add_counts(health, "blocked_streams", &HealthOptions::blocked_streams, "blocked streams");
  add_counts(health, "failing_subscriptions", &HealthOptions::failing_subscriptions,
             "subscriptions that are stopped, parked or behind");
  add_counts(health, "service_failures", &HealthOptions::service_failures,
             "failures in a row of a background service");
  add_counts(health, "failing_databases_percent", &HealthOptions::failing_databases_percent,
             "percentage of the databases of a group that fail");
}

}  // namespace dovetail::config
