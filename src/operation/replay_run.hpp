// One replay, from its start to its end.
#pragma once

#include <stop_token>

#include "dovetail/log.hpp"
#include "dovetail/replay.hpp"
#include "storage/database.hpp"

namespace dovetail::operation {

/// Whether a dead letter that matches the filter has the error that the request asks for.
[[nodiscard]] bool is_selected(const ReplayRequest& request, const StoredMessage& letter);

/// Works until there are no more dead letters, the limit is reached, the replay was cancelled, or
/// `stop` is requested. Stores how it ended. Does not throw.
void run_replay(storage::Database& database, const Logger& log, const Replay& replay,
                const std::stop_token& stop);

}  // namespace dovetail::operation
