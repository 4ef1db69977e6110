#include "storage/connection_budget.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/assert.hpp"

namespace dovetail::storage {

ConnectionBudget::ConnectionBudget(std::size_t limit, std::size_t reserved)
    : limit_(limit),
      ordinary_limit_(limit - std::min(limit, reserved)),
      probe_limit_(std::max<std::size_t>(1, limit / 4)) {
  if (ordinary_limit_ == 0) {
    throw std::invalid_argument("a budget of " + std::to_string(limit) + " connections with " +
                                std::to_string(reserved) +
                                " reserved ones has none left: increase max_connections");
  }
}

ConnectionBudget::~ConnectionBudget() {
  if (process_.is_current_process()) DOVETAIL_ASSERT(load_.total == 0 && waiting_.empty());
}

bool ConnectionBudget::fits(const Load& load, const Member& member) const {
  if (load.total >= limit_) return false;
  const bool failing = member.account->is_failing();
  if (failing && load.probes >= probe_limit_) return false;
  return load.ordinary < ordinary_limit_ || (member.use == Use::service && !failing);
}

ConnectionBudget::Load ConnectionBudget::without_one(Load load, Use use, bool probe) {
  --load.total;
  if (use == Use::ordinary || probe) --load.ordinary;
  if (probe) --load.probes;
  return load;
}

bool ConnectionBudget::take(Member& member) {
  const bool probe = member.account->is_failing();
  ++load_.total;
  if (member.use == Use::ordinary || probe) ++load_.ordinary;
  ++member.held();
  if (member.use == Use::service) member.account->note_served();
  if (probe) {
    ++load_.probes;
    ++member.account->probes_;
  }
  return probe;
}

ConnectionBudget::Permit ConnectionBudget::acquire(const std::shared_ptr<Member>& member,
                                                   TimePoint give_up_at,
                                                   const std::stop_token& stop) {
  process_.require();
  std::unique_lock lock(mutex_);
  if (fits(load_, *member)) {  // a permit is free, so no caller of this kind waits
    const bool probe = take(*member);
    return {*this, member, probe};
  }
  const auto me = waiting_.insert(waiting_.end(), Waiter{member.get()});
  // Close an idle connection only after the caller has queued. A pool whose connection becomes idle
  // later then sees that the caller waits. Another caller may take the permit of a closed
  // connection, so several may have to be closed.
  for (bool closed = true; closed && !me->granted;) {
    lock.unlock();
    closed = close_an_idle_one(*member);
    lock.lock();
  }
  if (member->use == Use::service && member->account->is_failing()) {
    give_up_at = std::min(give_up_at, std::chrono::steady_clock::now() + probe_patience);
  }
  const bool granted = granted_.wait_until(lock, stop, give_up_at, [&] { return me->granted; });
  const bool probe = me->probe;
  waiting_.erase(me);
  if (!granted) give_up(*member, stop.stop_requested());
  return {*this, member, probe};
}

void ConnectionBudget::give_up(const Member& member, bool stopped) const {
  const auto kind = stopped ? ErrorKind::cancelled : ErrorKind::transient;
  if (member.account->is_failing() && load_.probes >= probe_limit_) {
    // A service is called again later: a retry at once would only wait again.
    throw ProbeUnavailable(
        {member.use == Use::service ? ErrorKind::cancelled : kind, "", "acquire"},
        "the database fails, and other failing databases use the " + std::to_string(probe_limit_) +
            " connections of the group that may be used to try again");
  }
  throw Error({kind, "", "acquire"},
              "all " + std::to_string(limit_) + " connections of the group are in use (" +
                  std::to_string(limit_ - ordinary_limit_) +
                  " of them are reserved for background services): increase max_connections");
}

void ConnectionBudget::release(Member& member, bool probe) {
  if (!process_.is_current_process()) return;  // a forked child: the mutex may be the parent's
  {
    const std::lock_guard lock(mutex_);
    load_ = without_one(load_, member.use, probe);
    --member.held();
    if (probe) --member.account->probes_;
    grant();
  }
  granted_.notify_all();
}

/// Gives permits to callers in the order of their arrival.
void ConnectionBudget::grant() {
  for (auto& waiter : waiting_) {
    if (waiter.granted || !fits(load_, *waiter.member)) continue;
    waiter.probe = take(*waiter.member);
    waiter.granted = true;
  }
}

bool ConnectionBudget::is_wanted(Use use, bool probe) const {
  const auto left = without_one(load_, use, probe);
  return std::ranges::any_of(waiting_, [&](const Waiter& waiter) {
    return !waiter.granted && fits(left, *waiter.member);
  });
}

ConnectionBudget::Contention ConnectionBudget::contention(const Account& account) const {
  const std::lock_guard lock(mutex_);
  const bool probes = account.probes_ > 0;
  const bool wanted = (account.ordinary_ > 0 && is_wanted(Use::ordinary, probes)) ||
                      (account.service_ > 0 && is_wanted(Use::service, probes));
  if (!wanted) return Contention::none;
  return account.opening_ > 0 ? Contention::connects : Contention::calls;
}

/// Considers only pools whose permit the caller may use.
std::shared_ptr<ConnectionBudget::Member> ConnectionBudget::least_recently_used(
    const Member& caller) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Member> found;
  auto oldest = none_idle;
  for (const auto& member : members_) {
    const auto idle = member->oldest_idle.load();
    if (idle >= oldest || !fits(without_one(load_, member->use, false), caller)) continue;
    oldest = idle;
    found = member;
  }
  return found;
}

/// Returns false when there is none whose permit helps the caller.
bool ConnectionBudget::close_an_idle_one(const Member& caller) {
  while (const auto member = least_recently_used(caller)) {
    const std::lock_guard lock(member->mutex);
    if (member->close_oldest_idle && member->close_oldest_idle()) return true;
  }
  return false;
}

ConnectionBudget::Seat::Seat(std::shared_ptr<ConnectionBudget> budget, Use use,
                             std::shared_ptr<Account> account,
                             std::function<bool()> close_oldest_idle)
    : budget_(std::move(budget)), member_(std::make_shared<Member>(use, std::move(account))) {
  member_->close_oldest_idle = std::move(close_oldest_idle);
  const std::lock_guard lock(budget_->mutex_);
  budget_->members_.push_back(member_);
}

void ConnectionBudget::Seat::leave() {
  if (!budget_->process_.is_current_process()) return;
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
  return budget_->acquire(member_, give_up_at, stop);
}

void ConnectionBudget::Seat::note_success(Permit& permit) {
  if (member_->use == Use::service) member_->account->note_served();
  if (!permit.probe_ && !is_failing()) return;
  {
    const std::lock_guard lock(budget_->mutex_);
    member_->account->failing_ = false;
    if (std::exchange(permit.probe_, false)) {
      --budget_->load_.probes;
      --member_->account->probes_;
      if (member_->use == Use::service) --budget_->load_.ordinary;
    }
    budget_->grant();
  }
  budget_->granted_.notify_all();
}

void ConnectionBudget::Seat::note_failure() {
  if (is_failing() || !budget_->process_.is_current_process()) return;
  const std::lock_guard lock(budget_->mutex_);
  member_->account->failing_ = true;
}

bool ConnectionBudget::Seat::is_wanted() const {
  const std::lock_guard lock(budget_->mutex_);
  return budget_->is_wanted(member_->use, false);
}

void ConnectionBudget::Seat::note_opening(bool begins) {
  if (!budget_->process_.is_current_process()) return;
  const std::lock_guard lock(budget_->mutex_);
  auto& opening = member_->account->opening_;
  begins ? ++opening : --opening;
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
