// The batch and the result of the work coordinator as JSON, as docs/coordinator.md describes them.
#pragma once

#include <string>
#include <string_view>

#include "storage/work_store.hpp"

namespace dovetail::storage {

[[nodiscard]] std::string to_json(const WorkBatchOrder& order);
[[nodiscard]] WorkResult work_result_from_json(std::string_view json);

}  // namespace dovetail::storage
