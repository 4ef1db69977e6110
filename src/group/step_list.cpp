#include "group/step_list.hpp"

#include <algorithm>
#include <utility>

namespace dovetail::group {

void StepList::add(std::unique_ptr<component::SteppedService> service) {
  auto& entry = *entries_.emplace_back(std::make_unique<Entry>());
  entry.service = std::move(service);
  entry.service->begin([this, &entry](MonoTime at) { wake(entry, at); });
}

void StepList::wake(Entry& entry, MonoTime at) {
  {
    const std::lock_guard lock(mutex_);
    if (at >= entry.due) return;
    entry.due = at;
  }
  wake_(at);
}

MonoTime StepList::run_due(Clock& clock, const std::stop_token& stop) {
  MonoTime next = MonoTime::max();
  for (const auto& entry : entries_) {
    bool is_due = false;
    {
      const std::lock_guard lock(mutex_);
      is_due = entry->due <= clock.mono();
      // A wake-up during the step makes it earlier again.
      if (is_due) entry->due = MonoTime::max();
    }
    const auto then = is_due && !stop.stop_requested() ? entry->service->step(stop) : next;
    const std::lock_guard lock(mutex_);
    if (is_due) entry->due = std::min(entry->due, then);
    next = std::min(next, entry->due);
  }
  return next;
}

void StepList::end() {
  for (const auto& entry : entries_) entry->service->end();
  entries_.clear();
}

}  // namespace dovetail::group
