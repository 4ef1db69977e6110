#include "golden/golden_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <vector>

namespace dovetail::testing {
namespace {

constexpr std::size_t most_lines_shown = 20;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines that are only in one of the two texts.
std::string short_diff(const std::string& expected, const std::string& actual) {
  const auto before = lines_of(expected);
  const auto after = lines_of(actual);
  std::vector<std::string> different;
  const auto add_missing = [&](const auto& from, const auto& in, const char* sign) {
    const std::multiset<std::string> known(in.begin(), in.end());
    for (const auto& line : from) {
      if (!known.contains(line)) different.push_back(sign + line);
    }
  };
  add_missing(before, after, "- ");
  add_missing(after, before, "+ ");
  if (different.empty()) return "the same lines in another order\n";
  std::string text;
  for (std::size_t i = 0; i < std::min(different.size(), most_lines_shown); ++i) {
    text += different[i] + "\n";
  }
  if (different.size() > most_lines_shown) {
    text += "… and " + std::to_string(different.size() - most_lines_shown) + " more lines\n";
  }
  return text;
}

}  // namespace

std::string contents(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void expect_golden(const std::string& name, const std::string& actual) {
  const auto path = source_dir / "tests" / "golden" / name;
  if (std::getenv("DOVETAIL_UPDATE_GOLDEN") != nullptr) {
    std::ofstream{path, std::ios::binary} << actual;
    return;
  }
  const auto expected = contents(path);
  if (actual == expected) return;
  ADD_FAILURE() << "tests/golden/" << name << " differs:\n"
                << short_diff(expected, actual)
                << "If that is intended: DOVETAIL_UPDATE_GOLDEN=1 ./test golden";
}

}  // namespace dovetail::testing
