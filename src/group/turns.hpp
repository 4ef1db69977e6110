// Decides which databases may claim messages now, as the selection strategy says.
//
// A database tells the turns whether it is due for a claim and has room. When the strategy selects
// it, it is granted a claim and woken. It takes the grant, claims, and tells how many messages
// came.
//
// Threads: from any. `wake` is called with the lock held.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/log.hpp"
#include "dovetail/selection.hpp"

namespace dovetail::group {

class Turns {
 public:
  class Entry;
  using EntryPtr = std::shared_ptr<Entry>;

  /// At most `most` claims are made at the same time.
  Turns(Clock& clock, std::shared_ptr<SelectionStrategy> strategy, std::size_t most, Logger log)
      : clock_(clock), strategy_(std::move(strategy)), most_(most), log_(std::move(log)) {}

  /// `place` is the database's place in the order of the group.
  [[nodiscard]] EntryPtr add(std::string key, std::size_t place, std::function<void()> wake);
  void remove(const EntryPtr& entry);
  /// The list of the group's databases has changed.
  void reset();

  struct Need {
    bool is_due = false;
    bool has_room = false;
  };
  void update(const EntryPtr& entry, Need need);
  /// True when the database may claim now: it has to call end().
  [[nodiscard]] bool take(const EntryPtr& entry);
  /// With the need after the claim.
  void end(const EntryPtr& entry, std::size_t claimed, Need need);

 private:
  enum class State { waits, granted, claims };

  void set(Entry& entry, Need need);
  /// The strategy's choice; nothing when it throws.
  [[nodiscard]] std::optional<std::size_t> ask(const std::vector<SelectableStore>& stores);
  /// Asks the strategy for as long as more claims may be made.
  void grant();
  [[nodiscard]] std::vector<Entry*> candidates(MonoTime now) const;
  [[nodiscard]] std::size_t active(MonoTime now) const;

  Clock& clock_;
  const std::shared_ptr<SelectionStrategy> strategy_;
  const std::size_t most_;
  const Logger log_;
  std::mutex mutex_;
  std::vector<EntryPtr> entries_;  // in the order of the group
  std::string last_key_;
  std::optional<std::size_t> last_claimed_;
};

}  // namespace dovetail::group
