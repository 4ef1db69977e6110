#include "json/fields.hpp"
#include "json/to_json.hpp"

namespace dovetail::json {

ordered_json to_json(const Event& event) {
  return {{"position", event.position > 0 ? ordered_json(event.position) : ordered_json()},
          {"stream", event.stream},
          {"version", event.version},
          {"event_id", event.id.to_string()},
          {"type", event.type},
          {"data", event.data},
          {"metadata", or_null(event.metadata)},
          {"correlation_id", or_null(event.correlation_id)},
          {"causation_id", or_null(event.causation_id)},
          {"at", to_string(event.at)}};
}

ordered_json to_json(const EventStream& stream) {
  return {{"stream", stream.key},
          {"version", stream.version},
          {"first_version", stream.first_version},
          {"created_at", to_string(stream.created_at)},
          {"closed_at", or_null(stream.closed_at)},
          {"deleted_at", or_null(stream.deleted_at)}};
}

ordered_json to_json(const SubscriptionStatus& status) {
  return {
      {"subscription", status.name},
      {"parts", status.parts},
      {"next_parts", status.next_parts ? ordered_json(*status.next_parts) : ordered_json()},
      {"types", status.types},
      {"prefixes", status.prefixes},
      {"on_failure", status.on_failure},
      {"position", status.position},
      {"head", status.head},
      {"lag", status.lag},
      {"lag_ms", status.lag_time ? ordered_json(milliseconds(*status.lag_time)) : ordered_json()},
      {"held_parts", status.held_parts},
      {"attempts", status.attempts},
      {"last_error", or_null(status.last_error)},
      {"parked", status.parked},
      {"created_at", to_string(status.created_at)},
      {"paused_at", or_null(status.paused_at)},
      {"stopped_at", or_null(status.stopped_at)}};
}

ordered_json to_json(const SubscriptionPart& part) {
  return {{"part", part.part},
          {"position", part.position},
          {"epoch", part.epoch},
          {"owner", or_null(part.owner)},
          {"lease_until", or_null(part.lease_until)},
          {"attempts", part.attempts},
          {"last_error", or_null(part.last_error)},
          {"retry_at", or_null(part.retry_at)},
          {"stopped_at", or_null(part.stopped_at)},
          {"moved_at", to_string(part.moved_at)}};
}

ordered_json to_json(const ParkedEvent& parked) {
  return {{"position", parked.position},
          {"stream", parked.stream},
          {"version", parked.version},
          {"kind", to_string(parked.kind)},
          {"attempts", parked.attempts},
          {"error", parked.error},
          {"parked_at", to_string(parked.parked_at)},
          {"resumed_at", or_null(parked.resumed_at)}};
}

}  // namespace dovetail::json
