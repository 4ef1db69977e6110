#include "dovetail/selection.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace dovetail {
namespace {

using Stores = std::span<const SelectableStore>;

/// The databases that had their turn in this round. A strategy sees only databases that are due, so
/// the place of the last one in the group may be unknown. The next one is the first that had no
/// turn.
class SelectionRound {
 public:
  [[nodiscard]] bool had_turn(std::string_view key) const { return done_.contains(key); }
  void note_turn(std::string_view key) { done_.emplace(key); }
  void begin() { done_.clear(); }

 private:
  std::set<std::string, std::less<>> done_;
};

class RoundRobin final : public SelectionStrategy {
 public:
  std::optional<std::size_t> next(Stores stores,
                                  const std::optional<LastSelection>& /*last*/) override {
    if (std::ranges::none_of(stores, &SelectableStore::has_room)) return std::nullopt;
    auto found = first_without_turn(stores);
    if (!found) {
      round_.begin();
      found = first_without_turn(stores);
    }
    round_.note_turn(stores[*found].key);
    return found;
  }
  void reset() override { round_.begin(); }

 private:
  [[nodiscard]] std::optional<std::size_t> first_without_turn(Stores stores) const {
    for (std::size_t i = 0; i < stores.size(); ++i) {
      if (stores[i].has_room && !round_.had_turn(stores[i].key)) return i;
    }
    return std::nullopt;
  }

  SelectionRound round_;
};

class DrainFirst final : public SelectionStrategy {
 public:
  std::optional<std::size_t> next(Stores stores,
                                  const std::optional<LastSelection>& last) override {
    const bool drained = last && last->key == current_ && last->claimed == 0;
    auto found = drained ? std::nullopt : index_of_current(stores);
    if (!found) {
      found = first_without_turn(stores);
      current_ = stores[*found].key;
      round_.note_turn(current_);
    }
    return stores[*found].has_room ? found : std::nullopt;
  }
  void reset() override {
    round_.begin();
    current_.clear();
  }

 private:
  [[nodiscard]] std::optional<std::size_t> index_of_current(Stores stores) const {
    for (std::size_t i = 0; i < stores.size(); ++i) {
      if (stores[i].key == current_) return i;
    }
    return std::nullopt;
  }
  /// Begins a new round if all databases had their turn.
  [[nodiscard]] std::size_t first_without_turn(Stores stores) {
    for (std::size_t i = 0; i < stores.size(); ++i) {
      if (!round_.had_turn(stores[i].key)) return i;
    }
    round_.begin();
    return 0;
  }

  SelectionRound round_;
  std::string current_;  // no key is empty
};

/// Counts the messages that were claimed from each database. Counts decay, with a half-life in
/// selections. It is long enough to know the busy databases. It is short enough that a database
/// which was quiet does not take all turns when it becomes busy.
class Fair final : public SelectionStrategy {
 public:
  std::optional<std::size_t> next(Stores stores,
                                  const std::optional<LastSelection>& last) override {
    if (last && std::exchange(expects_result_, false)) charge(last->key, last->claimed);
    std::optional<std::size_t> best;
    std::pair<double, std::chrono::milliseconds> best_rank;
    for (std::size_t i = 0; i < stores.size(); ++i) {
      if (!stores[i].has_room) continue;
      const std::pair rank{served(stores[i].key), -stores[i].waiting};
      if (best && rank >= best_rank) continue;
      best = i;
      best_rank = rank;
    }
    if (!best) return std::nullopt;
    ++selections_;
    expects_result_ = true;
    charge(stores[*best].key, 1);  // a claim that finds nothing is a turn, too
    return best;
  }
  void reset() override {
    served_.clear();
    expects_result_ = false;
  }

 private:
  static constexpr double half_life = 16;
  struct Served {
    double messages = 0;
    double at = 0;  ///< The number of selections at the time of the count.
  };

  [[nodiscard]] double decayed(const Served& served) const {
    return served.messages * std::exp2((served.at - selections_) / half_life);
  }
  [[nodiscard]] double served(std::string_view key) const {
    const auto found = served_.find(key);
    return found == served_.end() ? 0 : decayed(found->second);
  }
  void charge(std::string_view key, std::size_t messages) {
    auto found = served_.find(key);
    if (found == served_.end()) found = served_.emplace(std::string{key}, Served{}).first;
    found->second = {decayed(found->second) + static_cast<double>(messages), selections_};
  }

  std::map<std::string, Served, std::less<>> served_;
  double selections_ = 0;
  bool expects_result_ = false;  // of the last selection
};

}  // namespace

std::shared_ptr<SelectionStrategy> round_robin() {
  return std::make_shared<RoundRobin>();
}

std::shared_ptr<SelectionStrategy> drain_first() {
  return std::make_shared<DrainFirst>();
}

std::shared_ptr<SelectionStrategy> fair() {
  return std::make_shared<Fair>();
}

}  // namespace dovetail
