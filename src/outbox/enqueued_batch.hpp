// What Outbox logs and counts after the commit of many messages.
#pragma once

#include <utility>
#include <vector>

#include "dovetail/outbox.hpp"
#include "queue/enqueued_count.hpp"

namespace dovetail {

struct Outbox::EnqueuedBatch {
  queue::EnqueuedCount count{};
  std::vector<std::pair<JoinId, MessageId>> attached{};  // for the log at debug level
};

}  // namespace dovetail
