// Finds calls in the sources of the library, to list its log events and metrics.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace dovetail::testing {

/// A call of a function: `log_.write(LogLevel::info, "join.started", {…})`.
struct FoundCall {
  std::string object{};    ///< `log_`; empty when there is none.
  std::string function{};  ///< `write`
  std::vector<std::string> arguments{};
  std::string enclosing{};       ///< The name of the function that contains the call.
  std::string enclosing_body{};  ///< The text of that definition.
};

/// All calls in src, except those of the command and of src/json.
[[nodiscard]] const std::vector<FoundCall>& calls_in_library();

/// The literals of a text that may be names or parts of names: `"join.started"`, `"acked"`.
[[nodiscard]] std::vector<std::string> literals_in(const std::string& text);

}  // namespace dovetail::testing
