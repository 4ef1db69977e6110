#include "join/rules.hpp"

#include <stdexcept>
#include <string>

#include "core/require.hpp"
#include "dovetail/error.hpp"

namespace dovetail::join {
namespace {

constexpr std::size_t max_metadata_bytes = std::size_t{1} << 20;

}  // namespace

void require_id(const char* what, const Uuid& id) {
  if (id.is_nil()) throw std::invalid_argument(std::string{what} + " must not be the nil UUID");
}

void no_such_join(JoinId join) {
  throw InvalidOperation("join " + join.to_string() + " does not exist");
}

void require_request(const JoinRequest& request) {
  if (request.grouping_key) {
    core::require_length("grouping_key", *request.grouping_key, max_grouping_key_characters);
  }
  if (request.metadata) {
    core::require_text("metadata", *request.metadata);
    if (request.metadata->size() > max_metadata_bytes) {
      throw std::invalid_argument("metadata must not exceed " + std::to_string(max_metadata_bytes) +
                                  " bytes, got " + std::to_string(request.metadata->size()));
    }
  }
  if (request.deadline) core::require_time("deadline", *request.deadline);
  if (request.join_id) require_id("join_id", request.join_id->uuid());
}

void require_expected_steps(int steps) {
  if (steps < 1)
    throw std::out_of_range("expected_steps must be at least 1, got " + std::to_string(steps));
}

storage::NewJoin new_join(const JoinRequest& request, JoinId id, int expected_steps) {
  storage::NewJoin join{.id = id,
                        .grouping_key = std::nullopt,
                        .expected_steps = expected_steps,
                        .metadata = std::nullopt,
                        .deadline = request.deadline};
  if (request.grouping_key && !request.grouping_key->empty())
    join.grouping_key = *request.grouping_key;
  if (request.metadata) join.metadata = *request.metadata;
  return join;
}

JoinId id_for(const std::optional<JoinId>& given) {
  return given ? *given : JoinId::generate();
}

}  // namespace dovetail::join
