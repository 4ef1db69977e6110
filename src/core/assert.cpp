#include "core/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace dovetail::core {

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "dovetail: assertion failed: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace dovetail::core
