#include "core/loop_progress.hpp"

#include <algorithm>

namespace dovetail::core {
namespace {

thread_local LoopProgress* current_loop = nullptr;

}  // namespace

void LoopProgress::begin() {
  current_loop = this;
  const std::lock_guard lock(mutex_);
  in_round_ = true;
  last_ = clock_.mono();
}

void LoopProgress::rest(MonoTime next) {
  if (current_loop == this) current_loop = nullptr;
  const std::lock_guard lock(mutex_);
  in_round_ = false;
  last_ = clock_.mono();
  due_ = next;
}

void LoopProgress::due_by(MonoTime time) {
  const std::lock_guard lock(mutex_);
  due_ = std::min(due_, std::max(time, clock_.mono()));
}

LoopProgress::Aside::Aside(LoopProgress& progress)
    : progress_(progress), in_round_(current_loop == &progress) {
  if (in_round_) progress_.rest(MonoTime::max());
}

LoopProgress::Aside::~Aside() {
  if (in_round_) progress_.begin();
}

void LoopProgress::note_current() {
  if (current_loop == nullptr) return;
  const std::lock_guard lock(current_loop->mutex_);
  current_loop->last_ = current_loop->clock_.mono();
}

LoopProgress::State LoopProgress::look() const {
  const std::lock_guard lock(mutex_);
  const auto now = clock_.mono();
  if (!in_round_ && now <= due_) return {.last = now};
  return {.last = last_, .overdue = now - (in_round_ ? last_ : due_)};
}

}  // namespace dovetail::core
