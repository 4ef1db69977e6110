#include "runtime/database_checks.hpp"

#include <array>
#include <optional>
#include <utility>

#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "runtime/health_grades.hpp"
#include "runtime/queue_checks.hpp"
#include "storage/inbox_store.hpp"
#include "storage/instance_store.hpp"
#include "storage/migrator.hpp"
#include "storage/subscription_store.hpp"

namespace dovetail::runtime {
namespace {

using observe::HealthRecorder;
using observe::HealthSource;

constexpr int most_stuck = 1'000;      // that are counted
constexpr int most_instances = 1'000;  // that are read

HealthResult check_clock(Node& node, const storage::ReadOptions& options) {
  const auto behind = node.clock_check().behind(options);
  if (!behind) return {};
  return {
      .status = HealthStatus::degraded,
      .description = "the database's clock was set back by " + in_seconds(*behind) +
                     " s: messages and timers from before wait until it reaches their times again",
      .data = {{"behind_seconds", in_seconds(*behind)}}};
}

HealthResult unhealthy(std::string description) {
  return {.status = HealthStatus::unhealthy, .description = std::move(description)};
}

HealthResult check_stuck(Node& node, const storage::ReadOptions& options) {
  std::vector<InboxEntry> stuck;
  node.database().read(
      [&](storage::ReadSession& session) {
        stuck = node.database().store<storage::InboxStore>().stuck(
            session, node.options().inbox.stuck_after, most_stuck);
      },
      options);
  std::vector<std::string> names;
  names.reserve(stuck.size());
  for (const auto& each : stuck) {
    names.push_back(core::printable(each.source) + "/" + core::printable(each.message_id));
  }
  return counted(
      "messages", static_cast<std::int64_t>(stuck.size()),
      node.options().health.stuck_inbox_messages,
      "leases expired long ago, and no caller started the messages again: " + listed(names));
}

HealthResult check_instances(Node& node, const storage::ReadOptions& options) {
  std::vector<InstanceInfo> instances;
  node.database().read(
      [&](storage::ReadSession& session) {
        instances = node.database().store<storage::InstanceStore>().list(session, most_instances);
      },
      options);
  std::vector<std::string> silent;
  for (const auto& each : instances) {
    if (each.stale) silent.push_back(each.host + " pid " + std::to_string(each.pid));
  }
  auto result = counted("silent", static_cast<std::int64_t>(silent.size()),
                        node.options().health.silent_instances,
                        "processes without a heartbeat for more than 90 s, which crashed or lost "
                        "the database: " +
                            listed(silent));
  result.data["instances"] = std::to_string(instances.size());
  return result;
}

/// Why a subscription needs attention.
std::optional<std::string> complaint_about(const SubscriptionStatus& status,
                                           std::chrono::milliseconds max_lag) {
  const auto name = core::printable(status.name);
  if (status.stopped_at) return name + " is stopped: " + status.last_error.value_or("");
  if (status.parked > 0) return name + " has " + std::to_string(status.parked) + " parked events";
  if (status.paused_at || status.lag_time.value_or(std::chrono::microseconds{0}) <= max_lag)
    return std::nullopt;
  return name + " is " + std::to_string(status.lag) + " positions and " +
         in_seconds(*status.lag_time) + " s behind";
}

HealthResult check_subscriptions(Node& node, const storage::ReadOptions& options) {
  std::vector<SubscriptionStatus> all;
  node.database().read(
      [&](storage::ReadSession& session) {
        all = node.database().store<storage::SubscriptionStore>().list(session, std::nullopt);
      },
      options);
  std::vector<std::string> complaints;
  for (const auto& status : all) {
    if (auto complaint = complaint_about(status, node.options().events.max_lag))
      complaints.push_back(*std::move(complaint));
  }
  auto result = counted("failing", static_cast<std::int64_t>(complaints.size()),
                        node.options().health.failing_subscriptions, listed(complaints));
  result.data["subscriptions"] = std::to_string(all.size());
  return result;
}

struct DatabaseCheck {
  const char* name;
  const char* tag;
  HealthResult (*run)(Node& node, const storage::ReadOptions& options);
};
constexpr std::array<DatabaseCheck, 11> database_checks{
    {{"clock", "database", check_clock},
     {"outbox.oldest_due", "queue", check_outbox_oldest},
     {"outbox.ready", "queue", check_outbox_ready},
     {"inbox.oldest_due", "inbox", check_inbox_oldest},
     {"inbox.ready", "inbox", check_inbox_ready},
     {"inbox.stuck", "inbox", check_stuck},
     {"timers.late", "schedule", check_late_timers},
     {"topics", "queue", check_topics},
     {"streams", "queue", check_streams},
     {"subscriptions", "events", check_subscriptions},
     {"instances", "runtime", check_instances}}};

/// A connection that was idle may have been cut: the second attempt opens a new one.
void verify_twice(Node& node, const storage::ReadOptions& options) {
  try {
    storage::verify_schema(node.database(), options);
  } catch (const Error& error) {
    if (!error.is_transient() || options.stop.stop_requested()) throw;
    storage::verify_schema(node.database(), options);
  }
}

/// The checks `database` and `schema`, with one read. Returns whether the database answered.
bool check_answer(Node& node, const storage::ReadOptions& options, HealthRecorder& recorder) {
  HealthResult schema;
  recorder.begin("database", {"database"});
  try {
    verify_twice(node, options);
  } catch (const SchemaMismatch& error) {
    schema = unhealthy(error.what());
  } catch (const std::exception& error) {
    if (!options.stop.stop_requested()) recorder.end(unhealthy(error.what()));
    return false;
  }
  recorder.end({});
  recorder.begin("schema", {"database"});
  recorder.end(std::move(schema));
  return true;
}

/// Returns whether the database answered.
bool make_check(const DatabaseCheck& check, Node& node, const storage::ReadOptions& options,
                HealthRecorder& recorder) {
  recorder.begin(check.name, {check.tag});
  try {
    recorder.end(check.run(node, options));
    return true;
  } catch (const Error& error) {
    if (options.stop.stop_requested()) return false;
    if (error.kind() == ErrorKind::permission) {
      recorder.leave_out();
      return true;
    }
    recorder.end(unhealthy(error.what()));
    return !error.is_transient();
  } catch (const std::exception& error) {
    recorder.end(unhealthy(error.what()));
    return true;
  }
}

}  // namespace

void check_database(Node& node, HealthSource::Scope scope, const std::stop_token& stop,
                    HealthRecorder& recorder) {
  const storage::ReadOptions options{.service = true, .once = true, .stop = stop};
  if (!check_answer(node, options, recorder) || scope == HealthSource::Scope::ready) return;
  for (const auto& check : database_checks) {
    if (!make_check(check, node, options, recorder)) return;
  }
}

}  // namespace dovetail::runtime
