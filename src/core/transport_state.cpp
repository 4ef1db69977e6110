#include "dovetail/transport.hpp"

namespace dovetail {

std::string_view to_string(TransportState state) {
  switch (state) {
    case TransportState::stopped:
      return "stopped";
    case TransportState::running:
      return "running";
    case TransportState::blocked:
      return "blocked";
    case TransportState::unavailable:
      return "unavailable";
    case TransportState::failing:
      break;
  }
  return "failing";
}

std::string_view to_string(TransportInfo::Direction direction) {
  return direction == TransportInfo::Direction::publish ? "publish" : "consume";
}

}  // namespace dovetail
