// Texts that are compared with a file of tests/golden.
#pragma once

#include <filesystem>
#include <string>

#include "support/paths.hpp"

namespace dovetail::testing {

inline const std::filesystem::path source_dir = testing::source_directory;

[[nodiscard]] std::string contents(const std::filesystem::path& path);

/// Fails when `actual` differs from tests/golden/`name`. The failure shows the lines that differ
/// and the command that updates the file. With DOVETAIL_UPDATE_GOLDEN, writes the file instead.
void expect_golden(const std::string& name, const std::string& actual);

}  // namespace dovetail::testing
