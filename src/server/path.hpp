// The target of a request: path and query.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::server {

struct Target {
  /// The decoded parts between the slashes: `/a/b%2Fc` has the segments `a` and `b/c`.
  std::vector<std::string> segments{};
  std::multimap<std::string, std::string> query{};
  /// Host and port of an absolute URL, as they were sent.
  std::optional<std::string> authority{};
};

/// Returns nothing for a target that is neither a path nor an absolute URL, has a bad percent
/// escape, or is not UTF-8 without NUL after decoding.
[[nodiscard]] std::optional<Target> parse_target(std::string_view target);

/// The segments of a path or pattern without percent escapes. A slash at the end counts not.
[[nodiscard]] std::vector<std::string> segments_of(std::string_view path);

}  // namespace dovetail::server
