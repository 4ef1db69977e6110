// Finds calls in the library's sources, well enough to list what it logs and measures.
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
  std::string enclosing{};       ///< The name of the function whose definition it is in.
  std::string enclosing_body{};  ///< The text of that definition.
};

/// All calls in src, but for those of the command and of src/json.
[[nodiscard]] const std::vector<FoundCall>& calls_in_library();

/// The literals of a text that may be names or parts of names: `"join.started"`, `"acked"`.
[[nodiscard]] std::vector<std::string> literals_in(const std::string& text);

}  // namespace dovetail::testing
