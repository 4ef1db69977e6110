// Assertions that stay on in release: a bug stops the process before it writes a wrong row.
#pragma once

namespace dovetail::core {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
}

#define DOVETAIL_ASSERT(expression) \
  ((expression) ? void(0) : ::dovetail::core::assertion_failed(#expression, __FILE__, __LINE__))
