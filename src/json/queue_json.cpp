#include "json/fields.hpp"
#include "json/to_json.hpp"

namespace dovetail::json {
namespace {

ordered_json headers_json(const Headers& headers) {
  auto object = ordered_json::object();
  for (const auto& [name, value] : headers) object[name] = value;
  return object;
}

ordered_json stages_json(Stages stages) {
  auto names = ordered_json::array();
  for (const auto stage : {Stage::stored, Stage::event_stored, Stage::published,
                           Stage::receptor_processed, Stage::perspective_processed}) {
    if (stages.has(stage)) names.push_back(std::string{to_string(stage)});
  }
  return names;
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
          {"stream", or_null(message.stream)},
          {"stages", stages_json(message.stages)},
          {"lease_until", to_string(claimed.lease_until)}};
}

ordered_json to_json(const StoredMessage& stored) {
  const auto& message = stored.message;
  return {{"message_id", message.message_id.to_string()},
          {"topic", message.topic},
          {"status", std::string{to_string(stored.status)}},
          {"correlation_id", or_null(message.correlation_id)},
          {"unique_key", or_null(stored.unique_key)},
          {"stream", or_null(message.stream)},
          {"stages", stages_json(message.stages)},
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

ordered_json to_json(const FailedAttempt& failure) {
  return {{"attempt", failure.attempt},
          {"at", to_string(failure.at)},
          {"kind", std::string{to_string(failure.kind)}},
          {"error", or_null(failure.error)},
          {"owner", or_null(failure.owner)}};
}

ordered_json to_json(const QueueCounts& counts) {
  const auto oldest =
      counts.oldest_due ? ordered_json(milliseconds(*counts.oldest_due)) : ordered_json();
  return {{"ready", counts.ready},
          {"scheduled", counts.scheduled},
          {"in_progress", counts.in_progress},
          {"done", counts.done},
          {"failed", counts.failed},
          {"paused", counts.paused},
          {"counted_up_to", counts.counted_up_to},
          {"oldest_due_ms", oldest}};
}

ordered_json to_json(const PausedTopic& paused) {
  return {{"topic", paused.topic}, {"since", to_string(paused.since)}};
}

ordered_json to_json(const StreamInfo& info) {
  return {{"stream", info.stream},
          {"state", std::string{to_string(info.state)}},
          {"messages", info.messages},
          {"head_id", or_null(info.head)},
          {"head_topic", info.head_topic},
          {"head_attempts", info.head_attempts},
          {"next_attempt_at", or_null(info.next_attempt_at)},
          {"last_error", or_null(info.last_error)},
          {"blocked_at", or_null(info.blocked_at)},
          {"owner", or_null(info.owner)},
          {"lease_until", or_null(info.lease_until)}};
}

ordered_json to_json(const DeadLetterGroup& group) {
  return {{"topic", group.topic},
          {"error", or_null(group.error)},
          {"count", group.count},
          {"oldest", to_string(group.oldest)},
          {"newest", to_string(group.newest)}};
}

ordered_json to_json(const DeadLetterSummary& summary) {
  return {{"groups", to_json_array(summary.groups)},
          {"letters_read", summary.letters_read},
          {"letters_cut", summary.letters_cut},
          {"groups_cut", summary.groups_cut}};
}

ordered_json dead_letter_page(const std::vector<StoredMessage>& letters, bool full) {
  ordered_json page{{"dead_letters", to_json_array(letters)}, {"next_start_after", nullptr}};
  if (full) page["next_start_after"] = letters.back().message.message_id.to_string();
  return page;
}

ordered_json dry_run_answer(const std::string& verb, std::size_t count,
                            const std::vector<StoredMessage>& first) {
  auto ids = ordered_json::array();
  for (const auto& each : first) ids.push_back(each.message.message_id.to_string());
  return {{"would_" + verb, count}, {"message_ids", std::move(ids)}};
}

ordered_json stream_page(const std::vector<StreamInfo>& streams, bool full) {
  ordered_json page{{"streams", to_json_array(streams)}, {"next_start_after", nullptr}};
  if (full) page["next_start_after"] = streams.back().stream;
  return page;
}

}  // namespace dovetail::json
