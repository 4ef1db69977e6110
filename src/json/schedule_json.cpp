#include "json/fields.hpp"
#include "json/to_json.hpp"

namespace dovetail::json {

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

}  // namespace dovetail::json
