#include "json/fields.hpp"
#include "json/to_json.hpp"

namespace dovetail::json {

ordered_json to_json(const TransportInfo& transport) {
  return {{"direction", std::string{to_string(transport.direction)}},
          {"name", transport.name},
          {"kind", transport.kind},
          {"address", transport.address},
          {"state", std::string{to_string(transport.state)}},
          {"reason", transport.reason.empty() ? ordered_json() : ordered_json(transport.reason)},
          {"since_ms", transport.since ? ordered_json(transport.since->count()) : ordered_json()},
          {"in_flight", transport.in_flight},
          {"done", transport.done},
          {"repeated", transport.repeated},
          {"dead", transport.dead}};
}

}  // namespace dovetail::json
