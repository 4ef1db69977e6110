// Applies the selection strategy: decides which databases may claim messages now.
//
// A database reports whether it is due for a claim and has room. If the strategy selects it, it
// gets a grant and is woken. It takes the grant, claims, and reports the number of claimed
// messages.
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
  /// Returns true if the database may claim now. It must then call end().
  [[nodiscard]] bool take(const EntryPtr& entry);
  /// `need` is the need after the claim.
  void end(const EntryPtr& entry, std::size_t claimed, Need need);

 private:
  enum class State { waits, granted, claims };

  void set(Entry& entry, Need need);
  /// Returns the choice of the strategy, or nullopt if it throws.
  [[nodiscard]] std::optional<std::size_t> ask(const std::vector<SelectableStore>& stores);
  /// Asks the strategy while more claims may be made.
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
