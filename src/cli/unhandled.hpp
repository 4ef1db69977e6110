// The table of topics that no live instance handles.
#pragma once

#include <string>
#include <vector>

#include "dovetail/instance.hpp"

namespace dovetail::cli {

inline const std::vector<std::string> unhandled_headings{"TOPIC NOBODY HANDLES", "QUEUE", "WAITING",
                                                         "OLDEST DUE"};

inline std::vector<std::vector<std::string>> unhandled_rows(
    const std::vector<UnhandledTopic>& topics) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(topics.size());
  for (const auto& each : topics) {
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(each.oldest_wait);
    rows.push_back(
        {each.topic, each.queue, std::to_string(each.seen), std::to_string(wait.count()) + " ms"});
  }
  return rows;
}

}  // namespace dovetail::cli
