#include "json/fields.hpp"
#include "json/to_json.hpp"

namespace dovetail::json {
namespace {

ordered_json milliseconds_or_null(const std::optional<std::chrono::milliseconds>& time) {
  return time ? ordered_json(time->count()) : ordered_json();
}

}  // namespace

ordered_json to_json(const FanoutPolicy& policy) {
  return {{"topic", policy.topic},
          {"work_key", or_null(policy.work_key)},
          {"every_ms", policy.every.count()},
          {"jitter_ms", policy.jitter.count()},
          {"default_every_ms", milliseconds_or_null(policy.default_every)},
          {"default_jitter_ms", milliseconds_or_null(policy.default_jitter)},
          {"settle_ms", policy.settle.count()},
          {"set_by_operator", policy.set_by_operator},
          {"job", or_null(policy.job)},
          {"created_at", to_string(policy.created_at)},
          {"updated_at", to_string(policy.updated_at)}};
}

ordered_json to_json(const FanoutCursor& cursor) {
  return {{"topic", cursor.topic},
          {"work_key", cursor.work_key},
          {"shard_key", cursor.shard_key},
          {"status", std::string{to_string(cursor.status)}},
          {"last_completed_at", or_null(cursor.last_completed_at)},
          {"enqueued_at", or_null(cursor.enqueued_at)},
          {"message_id",
           cursor.message_id ? ordered_json(cursor.message_id->to_string()) : ordered_json()},
          {"last_error", or_null(cursor.last_error)},
          {"created_at", to_string(cursor.created_at)},
          {"updated_at", to_string(cursor.updated_at)}};
}

}  // namespace dovetail::json
