#include "storage/operation_store.hpp"

#include "dovetail/error.hpp"

namespace dovetail::storage {

ReplayKind replay_kind(std::string_view name) {
  for (const auto kind : {ReplayKind::replay, ReplayKind::purge}) {
    if (to_string(kind) == name) return kind;
  }
  throw InvalidOperation("no kind of a replay: " + std::string{name});
}

ReplayState replay_state(std::string_view name) {
  for (const auto state : {ReplayState::running, ReplayState::done, ReplayState::cancelled,
                           ReplayState::failed, ReplayState::interrupted}) {
    if (to_string(state) == name) return state;
  }
  throw InvalidOperation("no state of a replay: " + std::string{name});
}

}  // namespace dovetail::storage
