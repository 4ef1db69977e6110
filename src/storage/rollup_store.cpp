#include "storage/rollup_store.hpp"

#include <nlohmann/json.hpp>

namespace dovetail::storage {

std::string to_json(std::span<const RollupRow> rows) {
  auto array = nlohmann::json::array();
  for (const auto& [queue, age, counts] : rows) {
    array.push_back({{"queue", queue},
                     {"topic", counts.topic},
                     {"age", age.count()},
                     {"enqueued", counts.enqueued},
                     {"done", counts.done},
                     {"retried", counts.retried},
                     {"failed", counts.failed},
                     {"calls", counts.calls},
                     {"handler_time", counts.handler_time.count()},
                     {"handler_time_max", counts.handler_time_max.count()}});
  }
  return array.dump();
}

}  // namespace dovetail::storage
