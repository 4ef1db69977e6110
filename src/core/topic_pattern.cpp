#include "core/topic_pattern.hpp"

#include <algorithm>

namespace dovetail::core {

/// The last `*` takes one more character whenever the rest does not match.
bool matches(std::string_view pattern, std::string_view topic) {
  constexpr auto none = std::string_view::npos;
  std::size_t star = none;
  std::size_t resume = 0;
  std::size_t at = 0;
  std::size_t next = 0;
  while (next < topic.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = next;
    } else if (at < pattern.size() && pattern[at] == topic[next]) {
      ++at;
      ++next;
    } else if (star != none) {
      at = star + 1;
      next = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == none;
}

std::size_t literal_length(std::string_view pattern) {
  return pattern.size() - static_cast<std::size_t>(std::ranges::count(pattern, '*'));
}

}  // namespace dovetail::core
