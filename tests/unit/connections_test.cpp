// The documented number of connections is the sum of the connections that the components declare.
#include "runtime/connections.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "dovetail/platform.hpp"
#include "support/paths.hpp"

namespace dovetail::runtime {
namespace {

std::string contents(const std::string& file) {
  std::ifstream stream(std::string{testing::source_directory} + "/" + file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(Connections, TheHeaderStatesTheSumOfTheUses) {
  const auto per_fetcher = service_connections(2) - service_connections(1);
  const auto fixed = service_connections(1) - per_fetcher + listener_connections;
  const auto usual = service_connections(WorkerOptions{}.fetchers) + listener_connections;
  const auto header = contents("include/dovetail/platform.hpp");
  for (const auto& text :
       {std::to_string(per_fetcher) + " * WorkerOptions::fetchers + " + std::to_string(fixed),
        "(" + std::to_string(usual) + " by default)"}) {
    EXPECT_NE(header.find(text), std::string::npos) << "platform.hpp lacks: " << text;
  }
}

TEST(Connections, TheDocumentationListsTheUses) {
  const auto page = contents("docs/operations.md");
  for (const auto& use : connection_uses()) {
    const auto count = std::to_string(use.connections) + (use.per_fetcher ? " per fetcher" : "");
    const auto row = "| " + use.service + " | " + count + " |";
    EXPECT_NE(page.find(row), std::string::npos) << "docs/operations.md lacks: " << row;
  }
}

}  // namespace
}  // namespace dovetail::runtime
