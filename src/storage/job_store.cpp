#include "storage/job_store.hpp"

#include <algorithm>
#include <array>

#include "core/assert.hpp"

namespace dovetail::storage {

RunStatus run_status_of(std::string_view word) {
  using enum MessageStatus;
  constexpr std::array all{ready, in_progress, done, failed};
  const auto found = std::ranges::find(all, word, [](RunStatus each) { return to_string(each); });
  DOVETAIL_ASSERT(found != all.end());
  return *found;
}

}  // namespace dovetail::storage
