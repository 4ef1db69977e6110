#include "group/turns.hpp"

#include <algorithm>

#include "group/errors.hpp"

namespace dovetail::group {
namespace {

/// A database that takes longer for a claim no longer counts: the others continue without it.
constexpr std::chrono::milliseconds patience{200};

}  // namespace

class Turns::Entry {
 public:
  Entry(std::string its_key, std::size_t its_place, std::function<void()> its_wake)
      : key(std::move(its_key)), place(its_place), wake(std::move(its_wake)) {}

  [[nodiscard]] bool hangs(MonoTime now) const {
    return state != State::waits && now - since >= patience;
  }

  const std::string key;
  const std::size_t place;
  const std::function<void()> wake;
  Need need;
  MonoTime due_since{};
  State state = State::waits;
  MonoTime since{};  // start of the state, unless it is `waits`
};

Turns::EntryPtr Turns::add(std::string key, std::size_t place, std::function<void()> wake) {
  auto entry = std::make_shared<Entry>(std::move(key), place, std::move(wake));
  const std::lock_guard lock(mutex_);
  const auto after = std::ranges::upper_bound(entries_, place, {},
                                              [](const EntryPtr& each) { return each->place; });
  entries_.insert(after, entry);
  return entry;
}

void Turns::remove(const EntryPtr& entry) {
  const std::lock_guard lock(mutex_);
  if (std::erase(entries_, entry) > 0) grant();
}

void Turns::reset() {
  const std::lock_guard lock(mutex_);
  last_key_.clear();
  last_claimed_.reset();
  try {
    strategy_->reset();
  } catch (...) {
    log_.write(LogLevel::error, "group.strategy_failed", {{"error", current_error()}});
  }
}

void Turns::set(Entry& entry, Need need) {
  if (need.is_due && !entry.need.is_due) entry.due_since = clock_.mono();
  entry.need = need;
  if (entry.state == State::granted && !(need.is_due && need.has_room)) entry.state = State::waits;
  grant();
}

void Turns::update(const EntryPtr& entry, Need need) {
  const std::lock_guard lock(mutex_);
  set(*entry, need);
}

bool Turns::take(const EntryPtr& entry) {
  const std::lock_guard lock(mutex_);
  if (entry->state != State::granted) return false;
  entry->state = State::claims;
  return true;
}

void Turns::end(const EntryPtr& entry, std::size_t claimed, Need need) {
  const std::lock_guard lock(mutex_);
  entry->state = State::waits;
  entry->need.is_due = false;
  if (last_key_ == entry->key) last_claimed_ = claimed;
  set(*entry, need);
}

std::size_t Turns::active(MonoTime now) const {
  return static_cast<std::size_t>(std::ranges::count_if(entries_, [&](const EntryPtr& each) {
    return each->state != State::waits && !each->hangs(now);
  }));
}

std::vector<Turns::Entry*> Turns::candidates(MonoTime now) const {
  std::vector<Entry*> found;
  for (const auto& entry : entries_) {
    if ((entry->need.is_due || entry->state != State::waits) && !entry->hangs(now)) {
      found.push_back(entry.get());
    }
  }
  return found;
}

std::optional<std::size_t> Turns::ask(const std::vector<SelectableStore>& stores) {
  std::optional<LastSelection> last;
  // A claim under way may bring messages.
  if (!last_key_.empty()) last = {.key = last_key_, .claimed = last_claimed_.value_or(1)};
  try {
    return strategy_->next(stores, last);
  } catch (...) {
    log_.write(LogLevel::error, "group.strategy_failed", {{"error", current_error()}});
    return std::nullopt;
  }
}

void Turns::grant() {
  const auto now = clock_.mono();
  while (active(now) < most_) {
    const auto found = candidates(now);
    std::vector<SelectableStore> stores;
    stores.reserve(found.size());
    for (const auto* entry : found) {
      stores.push_back({.key = entry->key,
                        .has_room = entry->need.has_room && entry->state == State::waits,
                        .waiting = std::chrono::duration_cast<std::chrono::milliseconds>(
                            now - entry->due_since)});
    }
    if (std::ranges::none_of(stores, &SelectableStore::has_room)) return;
    const auto chosen = ask(stores);
    if (!chosen || *chosen >= stores.size() || !stores[*chosen].has_room) return;
    auto& entry = *found[*chosen];
    entry.state = State::granted;
    entry.since = now;
    last_key_ = entry.key;
    last_claimed_.reset();
    entry.wake();
  }
}

}  // namespace dovetail::group
