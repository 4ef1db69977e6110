#include "cli/message_json.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;

ordered_json or_null(const std::optional<std::string>& text) {
  return text ? ordered_json(*text) : ordered_json();
}

ordered_json or_null(const std::optional<WallTime>& time) {
  return time ? ordered_json(to_string(*time)) : ordered_json();
}

ordered_json or_null(const std::optional<OwnerToken>& owner) {
  return owner ? ordered_json(owner->to_string()) : ordered_json();
}

ordered_json headers_json(const Headers& headers) {
  auto object = ordered_json::object();
  for (const auto& [name, value] : headers) object[name] = value;
  return object;
}

}  // namespace

ordered_json to_json(const ClaimedMessage& claimed) {
  const auto& message = claimed.message;
  return {{"id", message.id.to_string()},
          {"epoch", claimed.claim.epoch},
          {"topic", message.topic},
          {"payload", message.payload},
          {"correlation_id", or_null(message.correlation_id)},
          {"headers", headers_json(message.headers)},
          {"priority", message.priority},
          {"created_at", to_string(message.created_at)},
          {"due_at", or_null(message.due_at)},
          {"expires_at", or_null(message.expires_at)},
          {"attempts", message.attempts},
          {"lease_until", to_string(claimed.lease_until)}};
}

ordered_json to_json(const StoredMessage& stored) {
  const auto& message = stored.message;
  return {{"message_id", message.message_id.to_string()},
          {"topic", message.topic},
          {"status", std::string{to_string(stored.status)}},
          {"correlation_id", or_null(message.correlation_id)},
          {"unique_key", or_null(stored.unique_key)},
          {"headers", headers_json(message.headers)},
          {"priority", message.priority},
          {"created_at", to_string(message.created_at)},
          {"due_at", or_null(message.due_at)},
          {"expires_at", or_null(message.expires_at)},
          {"attempts", message.attempts},
          {"past_attempts", stored.past_attempts},
          {"next_attempt_at", or_null(stored.next_attempt_at)},
          {"processed_at", or_null(stored.processed_at)},
          {"processed_by", or_null(stored.processed_by)},
          {"last_error", or_null(stored.last_error)}};
}

ordered_json to_json(const InboxEntry& entry) {
  return {{"source", entry.source},
          {"message_id", entry.message_id},
          {"status", std::string{to_string(entry.status)}},
          {"sightings", entry.sightings},
          {"attempts", entry.attempts},
          {"first_seen_at", to_string(entry.first_seen_at)},
          {"last_seen_at", to_string(entry.last_seen_at)},
          {"processed_at", or_null(entry.processed_at)},
          {"lease_until", or_null(entry.lease_until)},
          {"topic", or_null(entry.topic)},
          {"id", entry.id ? ordered_json(entry.id->to_string()) : ordered_json()},
          {"last_error", or_null(entry.last_error)}};
}

ordered_json to_json(const Timer& timer) {
  return {{"timer_id", timer.id.to_string()},
          {"topic", timer.topic},
          {"correlation_id", or_null(timer.correlation_id)},
          {"unique_key", or_null(timer.unique_key)},
          {"status", std::string{to_string(timer.status)}},
          {"due_at", to_string(timer.due_at)},
          {"created_at", to_string(timer.created_at)},
          {"next_attempt_at", or_null(timer.next_attempt_at)},
          {"attempts", timer.attempts},
          {"last_error", or_null(timer.last_error)}};
}

ordered_json to_json(const Job& job) {
  return {{"job_id", job.id.to_string()},
          {"name", job.name},
          {"topic", job.topic},
          {"payload", job.payload},
          {"cron", job.cron},
          {"time_zone", job.time_zone},
          {"misfire", std::string{to_string(job.misfire)}},
          {"misfire_limit", job.misfire_limit},
          {"enabled", job.enabled},
          {"max_concurrent_runs", job.max_concurrent_runs},
          {"jitter_ms", job.jitter.count()},
          {"created_at", to_string(job.created_at)},
          {"updated_at", to_string(job.updated_at)},
          {"next_due_at", or_null(job.next_due_at)},
          {"last_run_at", or_null(job.last_run_at)},
          {"last_run_status", job.last_run_status
                                  ? ordered_json(std::string{to_string(*job.last_run_status)})
                                  : ordered_json()},
          {"last_error", or_null(job.last_error)}};
}

ordered_json to_json(const JobRun& run) {
  return {{"run_id", run.id.to_string()},
          {"job", run.job},
          {"scheduled_time", to_string(run.scheduled_time)},
          {"status", std::string{to_string(run.status)}},
          {"triggered", run.triggered},
          {"created_at", to_string(run.created_at)},
          {"started_at", or_null(run.started_at)},
          {"ended_at", or_null(run.ended_at)},
          {"output", or_null(run.output)},
          {"attempts", run.attempts},
          {"last_error", or_null(run.last_error)}};
}

ordered_json to_json(const Join& join) {
  return {{"join_id", join.id.to_string()},
          {"status", std::string{to_string(join.status)}},
          {"grouping_key", or_null(join.grouping_key)},
          {"expected_steps", join.expected_steps},
          {"completed_steps", join.completed_steps},
          {"failed_steps", join.failed_steps},
          {"created_at", to_string(join.created_at)},
          {"last_updated_at", to_string(join.last_updated_at)},
          {"finished_at", or_null(join.finished_at)},
          {"deadline", or_null(join.deadline)},
          {"reason", or_null(join.reason)},
          {"metadata", or_null(join.metadata)}};
}

ordered_json to_json(const JoinMember& member) {
  return {{"message_id", member.message.to_string()},
          {"status", std::string{to_string(member.status)}},
          {"created_at", to_string(member.created_at)}};
}

ordered_json to_json(const Lease& lease) {
  return {{"name", lease.name},
          {"slot", lease.slot},
          {"owner", lease.owner},
          {"token", lease.token},
          {"expires_at", to_string(lease.expires_at)},
          {"acquired_at", to_string(lease.acquired_at)},
          {"renewed_at", to_string(lease.renewed_at)}};
}

ordered_json to_json(const InstanceInfo& instance) {
  auto queues = ordered_json::array();
  for (const auto& queue : instance.queues) {
    queues.push_back(
        {{"queue", queue.name}, {"all_topics", queue.all_topics}, {"topics", queue.topics}});
  }
  return {{"instance_id", instance.id.to_string()},
          {"host", instance.host},
          {"pid", instance.pid},
          {"version", instance.version},
          {"state", std::string{to_string(instance.state)}},
          {"stale", instance.stale},
          {"started_at", to_string(instance.started_at)},
          {"heartbeat_at", to_string(instance.heartbeat_at)},
          {"queues", queues}};
}

}  // namespace dovetail::cli
