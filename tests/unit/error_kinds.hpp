// Every ErrorKind, and its name in the output of a failed test.
#pragma once

#include <ostream>
#include <vector>

#include "dovetail/error.hpp"

namespace dovetail {

inline void PrintTo(ErrorKind kind, std::ostream* out) {
  *out << to_string(kind);
}

namespace testing {

/// `other` is the last one.
inline std::vector<ErrorKind> all_error_kinds() {
  std::vector<ErrorKind> kinds;
  for (int i = 0; i <= static_cast<int>(ErrorKind::other); ++i)
    kinds.push_back(static_cast<ErrorKind>(i));
  return kinds;
}

}  // namespace testing
}  // namespace dovetail
