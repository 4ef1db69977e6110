#include "storage/inbox_store.hpp"

#include <algorithm>
#include <array>

#include "core/assert.hpp"

namespace dovetail::storage {
namespace {

template <class Enum, std::size_t count>
Enum by_word(std::string_view word, const std::array<Enum, count>& all) {
  const auto found = std::ranges::find(all, word, [](Enum each) { return to_string(each); });
  DOVETAIL_ASSERT(found != all.end());
  return *found;
}

}  // namespace

InboxStatus inbox_status_of(std::string_view word) {
  using enum InboxStatus;
  return by_word(word, std::array{seen, processing, processed, dead_letter, queued});
}

BeginOutcome begin_outcome_of(std::string_view word) {
  using enum BeginOutcome;
  return by_word(word, std::array{started, in_progress, processed, dead_letter, hash_mismatch});
}

InboxEnqueueOutcome enqueue_outcome_of(std::string_view word) {
  using enum InboxEnqueueOutcome;
  return by_word(word, std::array{stored, duplicate, hash_mismatch});
}

}  // namespace dovetail::storage
