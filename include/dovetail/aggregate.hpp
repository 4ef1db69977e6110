// Aggregates: objects whose states are the events of their streams.
//
//   auto orders = platform.events().aggregate<Order>(
//       {.apply = [](Order& order, const Event& event) { … },
//        .save = [](const Order& order) { return to_json(order); },
//        .load = [](const std::string& data) { return from_json(data); }});
//   orders.update("order-42", [](const Order& order) -> std::vector<NewEvent> {
//     if (order.paid) return {};  // nothing to do
//     return {{.type = "OrderPaid"}};
//   });
//
// load() reads the newest snapshot and the events after it. update() appends the events that a
// function returns, at the version that it has loaded, and starts again after a VersionConflict.
//
// Threads: Aggregates may be shared between threads if the functions may.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dovetail/error.hpp"
#include "dovetail/event.hpp"

namespace dovetail {

template <class State>
struct AggregateRules {
  State initial{};  ///< The state before the first event.
  /// Changes the state by an event. Called in the order of the versions.
  std::function<void(State& state, const Event& event)> apply{};
  /// Writes and reads the data of snapshots. Both absent: no snapshots.
  std::function<std::string(const State& state)> save{};
  std::function<State(const std::string& data)> load{};
  /// The format of the data. Snapshots of other formats are not read.
  int schema = 1;
  std::string snapshot_name = "state";
  /// update() stores a snapshot if this many events have been applied since the last one: 1 and up.
  int snapshot_every = 100;
  /// How often update() tries before it throws VersionConflict: 1 and up.
  int max_attempts = 10;
};

template <class State>
struct Loaded {
  State state{};
  std::int64_t version = 0;           ///< Zero: the stream has no events.
  std::int64_t snapshot_version = 0;  ///< Of the snapshot it was loaded from. Zero: none.
};

template <class State>
class Aggregates {
 public:
  Aggregates(Events& events, AggregateRules<State> rules)
      : events_(&events), rules_(std::move(rules)) {
    if (!rules_.apply) throw std::invalid_argument("apply must not be empty");
    if (!rules_.save != !rules_.load)
      throw std::invalid_argument("save and load must both be set, or neither");
    if (rules_.snapshot_every < 1) throw std::out_of_range("snapshot_every must be 1 or more");
    if (rules_.max_attempts < 1) throw std::out_of_range("max_attempts must be 1 or more");
  }

  /// Throws InvalidOperation if events that the state needs were truncated: the stream has no
  /// snapshot of this schema that is new enough.
  [[nodiscard]] Loaded<State> load(std::string_view stream) const {
    // The stream may be truncated between the reads. Then there is a newer snapshot.
    for (int attempt = 1; attempt <= 2; ++attempt) {
      if (auto loaded = try_load(stream)) return *std::move(loaded);
    }
    throw InvalidOperation("stream \"" + std::string{stream} +
                           "\" was truncated, and there is no snapshot of schema " +
                           std::to_string(rules_.schema) + " that replaces the deleted events");
  }

  /// Calls `decide(state)`, which returns the events to append, until they are appended at the
  /// version of that state. No events: appends nothing. Returns the state after the new events.
  ///
  /// Throws StreamClosed, the exceptions of `decide`, and VersionConflict after the last attempt.
  template <class Decide>
  Loaded<State> update(std::string_view stream, const Decide& decide,
                       const AppendOptions& options = {}) const {
    for (int attempt = 1;; ++attempt) {
      auto loaded = load(stream);
      std::vector<NewEvent> events = decide(std::as_const(loaded.state));
      if (events.empty()) return loaded;
      try {
        events_->append(stream, ExpectedVersion::exactly(loaded.version), events, options);
      } catch (const VersionConflict&) {
        if (attempt >= rules_.max_attempts) throw;
        continue;
      }
      for (const auto& event : events_->read(
               stream, {.from = loaded.version + 1, .size = static_cast<int>(events.size())})) {
        apply(loaded, event);
      }
      store_snapshot_if_due(stream, loaded);
      return loaded;
    }
  }

 private:
  /// Absent: events between the snapshot and the first stored event are missing.
  [[nodiscard]] std::optional<Loaded<State>> try_load(std::string_view stream) const {
    Loaded<State> loaded{.state = rules_.initial};
    if (rules_.load) {
      if (const auto snapshot =
              events_->find_snapshot(stream, rules_.snapshot_name, rules_.schema)) {
        loaded.state = rules_.load(snapshot->data);
        loaded.version = loaded.snapshot_version = snapshot->version;
      }
    }
    for (;;) {
      const EventPage page{.from = loaded.version + 1};
      const auto events = events_->read(stream, page);
      if (!events.empty() && events.front().version != loaded.version + 1) return std::nullopt;
      for (const auto& event : events) apply(loaded, event);
      if (events.size() < static_cast<std::size_t>(page.size)) return loaded;
    }
  }
  void apply(Loaded<State>& loaded, const Event& event) const {
    rules_.apply(loaded.state, event);
    loaded.version = event.version;
  }

  /// A snapshot only saves time. If it cannot be stored, a later update stores it.
  void store_snapshot_if_due(std::string_view stream, const Loaded<State>& loaded) const {
    if (!rules_.save || loaded.version - loaded.snapshot_version < rules_.snapshot_every) return;
    try {
      events_->store_snapshot({.stream = std::string{stream},
                               .name = rules_.snapshot_name,
                               .version = loaded.version,
                               .schema = rules_.schema,
                               .data = rules_.save(loaded.state)});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): see above
    }
  }

  Events* events_;
  AggregateRules<State> rules_;
};

template <class State>
Aggregates<State> Events::aggregate(AggregateRules<State> rules) {
  return Aggregates<State>{*this, std::move(rules)};
}

}  // namespace dovetail
