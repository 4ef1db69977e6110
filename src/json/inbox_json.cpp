#include "json/fields.hpp"
#include "json/to_json.hpp"

namespace dovetail::json {

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

ordered_json to_json(const InboxCounts& counts) {
  return {{"seen", counts.seen},
          {"processing", counts.processing},
          {"overdue", counts.overdue},
          {"processed", counts.processed},
          {"dead_letters", counts.dead_letters},
          {"queue", to_json(counts.queue)},
          {"counted_up_to", counts.counted_up_to}};
}

}  // namespace dovetail::json
