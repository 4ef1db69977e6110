#include "storage/connection_budget.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/assert.hpp"
#include "dovetail/error.hpp"

namespace dovetail::storage {

ConnectionBudget::ConnectionBudget(std::size_t limit, std::size_t reserved)
    : limit_(limit), ordinary_limit_(limit - std::min(limit, reserved)) {
  if (ordinary_limit_ == 0) {
    throw std::invalid_argument("a budget of " + std::to_string(limit) + " connections with " +
                                std::to_string(reserved) +
                                " reserved ones has none left: increase max_connections");
  }
}

ConnectionBudget::~ConnectionBudget() {
  if (process_.is_this_one()) DOVETAIL_ASSERT(total_ == 0 && waiting_.empty());
}

bool ConnectionBudget::fits(Use use) const {
  return total_ < limit_ && (use == Use::service || ordinary_ < ordinary_limit_);
}

void ConnectionBudget::take(Use use) {
  ++total_;
  if (use == Use::ordinary) ++ordinary_;
}

ConnectionBudget::Permit ConnectionBudget::acquire(Use use, TimePoint give_up_at,
                                                   const std::stop_token& stop) {
  process_.require();
  std::unique_lock lock(mutex_);
  if (fits(use)) {  // then no caller of this use waits
    take(use);
    return {*this, use};
  }
  const auto me = waiting_.insert(waiting_.end(), Waiter{use});
  // The caller is in the queue now, so a pool whose connection becomes idle later sees it. Closing
  // one connection may not be enough: another caller may get the permit first.
  for (bool closed = true; closed && !me->granted;) {
    lock.unlock();
    closed = close_an_idle_one(use);
    lock.lock();
  }
  const bool granted = granted_.wait_until(lock, stop, give_up_at, [&] { return me->granted; });
  waiting_.erase(me);
  if (!granted) give_up(stop.stop_requested());
  return {*this, use};
}

void ConnectionBudget::give_up(bool stopped) const {
  throw Error({stopped ? ErrorKind::cancelled : ErrorKind::transient, "", "acquire"},
              "all " + std::to_string(limit_) + " connections of the group are in use (" +
                  std::to_string(limit_ - ordinary_limit_) +
                  " of them are reserved for background services): increase max_connections");
}

void ConnectionBudget::release(Use use) {
  if (!process_.is_this_one()) return;  // a forked child: the parent may hold the mutex
  {
    const std::lock_guard lock(mutex_);
    --total_;
    if (use == Use::ordinary) --ordinary_;
    grant();
  }
  granted_.notify_all();
}

/// Gives permits to callers in the order of their arrival.
void ConnectionBudget::grant() {
  for (auto& waiter : waiting_) {
    if (waiter.granted || !fits(waiter.use)) continue;
    take(waiter.use);
    waiter.granted = true;
  }
}

/// Returns whether a waiting caller could use a permit of this use.
bool ConnectionBudget::is_wanted(Use use) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(waiting_, [&](const Waiter& waiter) {
    if (waiter.granted) return false;
    return waiter.use == Use::service || use == Use::ordinary || ordinary_ < ordinary_limit_;
  });
}

/// The least recently used pool whose permit helps a caller of this use.
std::shared_ptr<ConnectionBudget::Member> ConnectionBudget::least_recently_used(Use use) {
  const std::lock_guard lock(mutex_);
  const bool any = use == Use::service || ordinary_ < ordinary_limit_;
  std::shared_ptr<Member> found;
  auto oldest = none_idle;
  for (const auto& member : members_) {
    if (!any && member->use == Use::service) continue;
    const auto idle = member->oldest_idle.load();
    if (idle >= oldest) continue;
    oldest = idle;
    found = member;
  }
  return found;
}

/// Returns false if no pool has an idle connection whose permit helps a caller of this use.
bool ConnectionBudget::close_an_idle_one(Use use) {
  while (const auto member = least_recently_used(use)) {
    const std::lock_guard lock(member->mutex);
    if (member->close_oldest_idle && member->close_oldest_idle()) return true;
  }
  return false;
}

ConnectionBudget::Seat::Seat(std::shared_ptr<ConnectionBudget> budget, Use use,
                             std::function<bool()> close_oldest_idle)
    : budget_(std::move(budget)), member_(std::make_shared<Member>(use)) {
  member_->close_oldest_idle = std::move(close_oldest_idle);
  const std::lock_guard lock(budget_->mutex_);
  budget_->members_.push_back(member_);
}

void ConnectionBudget::Seat::leave() {
  if (!budget_->process_.is_this_one()) return;
  {
    const std::lock_guard lock(budget_->mutex_);
    std::erase(budget_->members_, member_);
  }
  const std::lock_guard lock(member_->mutex);
  member_->close_oldest_idle = nullptr;
  member_->oldest_idle = none_idle;
}

ConnectionBudget::Permit ConnectionBudget::Seat::acquire(TimePoint give_up_at,
                                                         const std::stop_token& stop) {
  return budget_->acquire(member_->use, give_up_at, stop);
}

bool ConnectionBudget::Seat::is_wanted() const {
  return budget_->is_wanted(member_->use);
}

void ConnectionBudget::Seat::note_idle(std::optional<TimePoint> oldest) {
  member_->oldest_idle = oldest ? oldest->time_since_epoch().count() : none_idle;
}

void ConnectionBudget::Seat::serve_waiting() {
  if (!is_wanted()) return;
  const std::lock_guard lock(member_->mutex);
  member_->close_oldest_idle();
}

}  // namespace dovetail::storage
