// The topics that a route publishes.
//
// A route of one topic knows it. The topics of a pattern are found among the messages that are due,
// and are remembered.
//
// Threads: one at a time.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::transport {

/// Returns whether `pattern` is the route of the topic. `routes` are all routes, in the order of
/// their registration.
[[nodiscard]] bool is_route_of(std::string_view topic, std::string_view pattern,
                               std::span<const std::string> routes);

class RouteTopics {
 public:
  /// `is_handled` returns whether the topic has a handler.
  RouteTopics(std::string pattern, std::vector<std::string> routes,
              std::function<bool(std::string_view topic)> is_handled);

  /// True if topics have to be searched.
  [[nodiscard]] bool is_pattern() const { return is_pattern_; }
  [[nodiscard]] const std::set<std::string, std::less<>>& topics() const { return topics_; }

  /// Searches the queue. Returns whether topics were added.
  bool search(storage::Database& database, const std::stop_token& stop);
  /// The topics of messages that are due. Returns whether topics were added.
  bool add(std::span<const storage::DueTopic> due);
  /// When the next search may begin. A search takes one part in fifty of the time at most.
  [[nodiscard]] MonoTime next_search() const { return next_search_; }

 private:
  std::string pattern_;
  std::vector<std::string> routes_;
  std::function<bool(std::string_view topic)> is_handled_;
  bool is_pattern_;
  std::set<std::string, std::less<>> topics_;
  MonoTime next_search_{};
};

}  // namespace dovetail::transport
