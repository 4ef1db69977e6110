// Small files, read as a whole.
#pragma once

#include <string>

namespace dovetail::config {

/// Throws std::system_error when the file cannot be read, or is a directory or larger than 16 MiB.
[[nodiscard]] std::string read_text(const std::string& path);

}  // namespace dovetail::config
