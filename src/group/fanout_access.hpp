// The fan-outs of a group as its databases see them.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <string_view>

#include "dovetail/group.hpp"

namespace dovetail::group {

struct FanoutAccess {
  /// From now on, add() and on() throw.
  static void close(GroupFanout& fanouts);
  /// Registers all fan-outs and handlers with a database. `done` counts the registrations that
  /// succeeded: after an error, call it again with the same counter.
  static void register_with(const GroupFanout& fanouts, Fanout& fanout, const std::string& database,
                            std::size_t& done, const std::stop_token& stop);
  /// The key of the concurrency limit that the handlers of a topic share in all databases. Null:
  /// the topic has no such handler. Requires that the fan-outs are closed.
  [[nodiscard]] static const void* limit_of(const GroupFanout& fanouts, std::string_view topic);
};

}  // namespace dovetail::group
