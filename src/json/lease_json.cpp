#include "json/fields.hpp"
#include "json/to_json.hpp"

namespace dovetail::json {

ordered_json to_json(const Lease& lease) {
  return {{"name", lease.name},
          {"slot", lease.slot},
          {"owner", lease.owner},
          {"token", lease.token},
          {"expires_at", to_string(lease.expires_at)},
          {"acquired_at", to_string(lease.acquired_at)},
          {"renewed_at", to_string(lease.renewed_at)}};
}

}  // namespace dovetail::json
