// Secrets of brokers, given by value or in a file.
#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace dovetail::transport {

/// The value, or the content of the file without the line break at its end. `what` names the option
/// of the file in the error.
inline std::string secret_of(const std::string& value, const std::string& file, const char* what) {
  if (file.empty()) return value;
  std::ifstream in{file, std::ios::binary};
  if (!in) throw std::runtime_error(std::string{what} + ": cannot read " + file);
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace dovetail::transport
