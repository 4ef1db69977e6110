// The text of an exception that user code has thrown.
#pragma once

#include <exception>
#include <string>

namespace dovetail::group {

/// Call it in a catch block.
[[nodiscard]] inline std::string current_error() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "it threw something that is no std::exception";
  }
}

}  // namespace dovetail::group
