#include "group/roster.hpp"

#include <algorithm>

#include "dovetail/error.hpp"

namespace dovetail::group {
namespace {

/// How long a database that has left is kept for calls under way, in addition to their retries.
constexpr std::chrono::minutes kept_for_calls{10};

template <class Rows>
auto row_of(Rows& rows, std::string_view key) {
  return std::ranges::find_if(rows,
                              [&](const auto& row) { return row.member->entry().key == key; });
}

}  // namespace

Roster::Roster(const GroupContext& group)
    : group_(group), retired_(kept_for_calls + group.options.database.retry_for) {}

void Roster::insert(DatabaseEntry entry, bool discovered) {
  auto member = std::make_shared<Member>(group_, std::move(entry), next_place_++);
  if (threads_ && !stopped_) {
    threads_->turns.reset();
    member->start(*threads_);
  }
  rows_.push_back({std::move(member), discovered});
}

void Roster::start_leaving(const Row& row) {
  row.member->leave(stopped_);
  if (auto view = row.member->take_view()) retired_.add(std::move(view), group_.clock.mono());
  if (!threads_ || stopped_) static_cast<void>(retired_.take_expired(group_.clock.mono()));
  if (!threads_) return;  // it has no tasks
  threads_->turns.reset();
  leaving_.push_back(row.member);
}

void Roster::add(DatabaseEntry entry) {
  const std::lock_guard lock(mutex_);
  if (row_of(rows_, entry.key) != rows_.end()) {
    throw InvalidOperation("the group has a database with the key \"" + entry.key + "\" already");
  }
  insert(std::move(entry), false);
}

bool Roster::remove(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto row = row_of(rows_, key);
  if (row == rows_.end()) return false;
  if (row->discovered) {
    throw InvalidOperation("the database \"" + std::string{key} +
                           "\" comes from the discovery: remove it there");
  }
  start_leaving(*row);
  rows_.erase(row);
  return true;
}

std::vector<std::string> Roster::apply(const std::vector<DatabaseEntry>& entries,
                                       const std::set<std::string>& unclear) {
  std::vector<std::string> complaints;
  const std::lock_guard lock(mutex_);
  std::erase_if(rows_, [&](const Row& row) {
    const auto& entry = row.member->entry();
    const bool stays = !row.discovered || unclear.contains(entry.key) ||
                       std::ranges::find(entries, entry) != entries.end();
    if (!stays) start_leaving(row);
    return !stays;
  });
  for (const auto& entry : entries) {
    const auto row = row_of(rows_, entry.key);
    if (row == rows_.end()) {
      insert(entry, true);
    } else if (!row->discovered) {
      complaints.push_back("the key \"" + entry.key +
                           "\" of the discovery was given to add() before");
    }
  }
  return complaints;
}

std::shared_ptr<Member> Roster::find(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto row = row_of(rows_, key);
  return row != rows_.end() ? row->member : nullptr;
}

std::shared_ptr<Member> Roster::find(const Uuid& key) const {
  if (auto exact = find(std::string_view{key.to_string()})) return exact;
  const std::lock_guard lock(mutex_);
  const auto row =
      std::ranges::find_if(rows_, [&](const Row& each) { return each.member->uuid() == key; });
  return row != rows_.end() ? row->member : nullptr;
}

std::vector<std::shared_ptr<Member>> Roster::members() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Member>> members;
  for (const auto& row : rows_) members.push_back(row.member);
  return members;
}

std::vector<std::shared_ptr<Member>> Roster::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Member>> members;
  for (const auto& row : rows_) members.push_back(row.member);
  members.insert(members.end(), leaving_.begin(), leaving_.end());
  return members;
}

void Roster::start(const GroupThreads& threads) {
  const std::lock_guard lock(mutex_);
  threads_.emplace(threads);
  for (const auto& row : rows_) row.member->start(threads);
}

void Roster::sweep() {
  std::vector<std::shared_ptr<Member>> gone;
  std::vector<std::shared_ptr<runtime::Node>> expired;  // released without the lock
  {
    const std::lock_guard lock(mutex_);
    expired = retired_.take_expired(group_.clock.mono());
    const auto first = std::stable_partition(
        leaving_.begin(), leaving_.end(), [](const auto& member) { return !member->has_left(); });
    gone.assign(first, leaving_.end());
    leaving_.erase(first, leaving_.end());
  }
  for (const auto& member : gone) {
    group_.log.write(LogLevel::info, "group.database_left", {{"store", member->entry().key}});
    member->end();
  }
}

void Roster::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

void Roster::end() {
  for (const auto& member : all()) member->end();
}

}  // namespace dovetail::group
