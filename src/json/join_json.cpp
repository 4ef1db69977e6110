#include "json/fields.hpp"
#include "json/to_json.hpp"

namespace dovetail::json {

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

}  // namespace dovetail::json
