// What `dovetail config` prints, and the reference in docs/configuration.md.
#include <cstdlib>
#include <fstream>

#include "config/show.hpp"
#include "golden/golden_file.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

const std::string reference_begin = "<!-- begin: dovetail config reference -->\n";
const std::string reference_end = "<!-- end -->\n";

TEST(Golden, TheDefaultsOfTheConfiguration) {
  const auto shown = run_command({"env", "-i", command_path, "config", "show"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  expect_golden("config.toml", shown.out);
}

TEST(Golden, TheDocumentationOfTheConfigurationListsAllSettings) {
  const auto path = source_dir / "docs" / "configuration.md";
  const auto page = contents(path);
  const auto begin = page.find(reference_begin) + reference_begin.size();
  const auto end = page.find(reference_end, begin);
  ASSERT_NE(end, std::string::npos);
  const auto expected =
      page.substr(0, begin) + "\n" + config::reference() + "\n" + page.substr(end);
  if (std::getenv("DOVETAIL_UPDATE_GOLDEN") != nullptr) {
    std::ofstream{path, std::ios::binary} << expected;
    return;
  }
  EXPECT_EQ(page, expected)
      << "docs/configuration.md differs. Run: DOVETAIL_UPDATE_GOLDEN=1 ./test golden";
}

}  // namespace
}  // namespace dovetail::testing
