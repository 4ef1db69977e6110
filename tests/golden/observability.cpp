// The files of docs/observability: they name only metrics that exist, and the alert rules work.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "golden/golden_file.hpp"
#include "observe/metric_families.hpp"
#include "support/backend.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

const auto observability_dir = source_dir / "docs" / "observability";

/// Names in a text that no process writes.
std::set<std::string> unknown_metrics(const std::string& text) {
  static const std::regex name("dovetail_[a-z_]+");
  static const std::regex suffix("_(bucket|sum|count)$");
  std::set<std::string> unknown;
  for (std::sregex_iterator each(text.begin(), text.end(), name), end; each != end; ++each) {
    const auto metric = std::regex_replace(each->str(), suffix, "");
    if (observe::help_of(metric).empty() && observe::help_of(each->str()).empty())
      unknown.insert(each->str());
  }
  return unknown;
}

TEST(Observability, TheDashboardUsesExistingMetrics) {
  const auto text = contents(observability_dir / "grafana-dashboard.json");
  EXPECT_THAT(unknown_metrics(text), ::testing::IsEmpty());
  EXPECT_THAT(unknown_metrics("rate(dovetail_nonsense_total[5m])"), ::testing::SizeIs(1));
}

TEST(Observability, TheDashboardCanBeImported) {
  const auto dashboard =
      nlohmann::json::parse(contents(observability_dir / "grafana-dashboard.json"));
  EXPECT_EQ(dashboard.at("title"), "Dovetail");
  std::set<int> ids;
  for (const auto& panel : dashboard.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << panel.at("title");
    if (panel.at("type") == "row") continue;
    EXPECT_FALSE(panel.at("targets").empty()) << panel.at("title");
    for (const auto& target : panel.at("targets")) {
      EXPECT_NE(target.at("expr"), "");
      EXPECT_EQ(target.at("datasource").at("uid"), "${datasource}");
    }
  }
}

/// Each expression of the dashboard as a rule, because promtool checks rules.
TEST(Observability, TheQueriesOfTheDashboardAreValid) {
  const auto dashboard =
      nlohmann::json::parse(contents(observability_dir / "grafana-dashboard.json"));
  nlohmann::json rules = nlohmann::json::array();
  for (const auto& panel : dashboard.at("panels")) {
    for (const auto& target : panel.value("targets", nlohmann::json::array())) {
      auto query = target.at("expr").get<std::string>();
      query = std::regex_replace(query, std::regex(R"(\$__rate_interval)"), "5m");
      rules.push_back({{"record", "query:" + std::to_string(rules.size())}, {"expr", query}});
    }
  }
  ASSERT_GT(rules.size(), 20U);
  const TemporaryDirectory directory;
  const auto file = directory.path() / "queries.yml";
  const nlohmann::json group{{"name", "dashboard"}, {"rules", rules}};
  std::ofstream(file) << nlohmann::json{{"groups", {group}}}.dump();  // JSON is YAML
  const auto result = run_command({"promtool", "check", "rules", file.string()});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST(Observability, TheAlertRulesUseExistingMetrics) {
  EXPECT_THAT(unknown_metrics(contents(observability_dir / "alerts.yml")), ::testing::IsEmpty());
}

TEST(Observability, TheAlertRulesPassTheirTests) {
  const TemporaryDirectory directory;
  std::filesystem::copy(observability_dir / "alerts.yml", directory.path());
  std::filesystem::copy(source_dir / "tests" / "golden" / "alerts_test.yml", directory.path());
  const auto result =
      run_command({"promtool", "test", "rules", (directory.path() / "alerts_test.yml").string()});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST(Observability, EveryAlertIsTested) {
  const auto rules = contents(observability_dir / "alerts.yml");
  const auto tests = contents(source_dir / "tests" / "golden" / "alerts_test.yml");
  static const std::regex alert("- alert: ([A-Za-z]+)");
  for (std::sregex_iterator each(rules.begin(), rules.end(), alert), end; each != end; ++each) {
    EXPECT_NE(tests.find(each->str(1)), tests.npos) << each->str(1);
  }
}

}  // namespace
}  // namespace dovetail::testing
