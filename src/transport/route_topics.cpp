#include "transport/route_topics.hpp"

#include <algorithm>
#include <utility>

#include "core/topic_pattern.hpp"

namespace dovetail::transport {
namespace {

constexpr std::chrono::milliseconds search_interval{1'000};
constexpr int search_share = 50;
/// The messages that a search reads of each priority.
constexpr int search_limit = 1'000'000;
/// Topics that are remembered. With more of them, those without due messages are forgotten.
constexpr std::size_t most_topics = 1'000;

/// Workers of Dovetail exchange these messages.
bool is_internal(std::string_view topic) {
  return topic.starts_with("fanout:") || topic.starts_with("fanout.round:");
}

}  // namespace

bool is_route_of(std::string_view topic, std::string_view pattern,
                 std::span<const std::string> routes) {
  if (!core::matches(pattern, topic)) return false;
  if (core::is_exact(pattern)) return true;
  if (is_internal(topic)) return false;
  const auto length = core::literal_length(pattern);
  bool is_earlier = true;
  for (const auto& other : routes) {
    if (other == pattern) {
      is_earlier = false;
      continue;
    }
    if (!core::matches(other, topic)) continue;
    const auto of_other = core::literal_length(other);
    const bool is_better = of_other > length || (of_other == length && is_earlier);
    if (is_better || core::is_exact(other)) return false;
  }
  return true;
}

RouteTopics::RouteTopics(std::string pattern, std::vector<std::string> routes,
                         std::function<bool(std::string_view topic)> is_handled)
    : pattern_(std::move(pattern)),
      routes_(std::move(routes)),
      is_handled_(std::move(is_handled)),
      is_pattern_(!core::is_exact(pattern_)) {
  if (!is_pattern_) topics_.insert(pattern_);
}

bool RouteTopics::search(storage::Database& database, const std::stop_token& stop) {
  const auto began = database.clock().mono();
  next_search_ = began + search_interval;
  std::vector<storage::DueTopic> due;
  database.read(
      [&](storage::ReadSession& session) {
        due = database.queue(storage::queue_names::outbox)
                  .operations.due_topics(session, std::chrono::microseconds{0}, search_limit);
      },
      {.service = true, .stop = stop});
  const auto ended = database.clock().mono();
  next_search_ = ended + std::max<MonoDuration>(search_interval, (ended - began) * search_share);
  return add(due);
}

bool RouteTopics::add(std::span<const storage::DueTopic> due) {
  std::set<std::string, std::less<>> found;
  for (const auto& each : due) {
    if (is_handled_(each.topic) || !is_route_of(each.topic, pattern_, routes_)) continue;
    found.insert(each.topic);
  }
  const bool added = !std::ranges::includes(topics_, found);
  if (!added) return false;
  if (topics_.size() + found.size() > most_topics) {
    topics_ = std::move(found);
  } else {
    topics_.merge(found);
  }
  return true;
}

}  // namespace dovetail::transport
