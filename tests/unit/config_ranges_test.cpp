// The ranges of the settings are those of the library.
#include <set>

#include "config/load.hpp"
#include "support/backend.hpp"

namespace dovetail::config {
namespace {

/// Of a Platform, which checks them when it is opened or started.
const std::set<std::string> sections{"database", "worker",   "outbox", "inbox", "joins",
                                     "timers",   "schedule", "events", "health"};

bool is_number_of_a_platform(const Setting& setting) {
  return sections.contains(setting.section) && setting.name() != "worker.threads" &&
         std::holds_alternative<std::int64_t>(setting.get({}));
}

class ConfigRanges : public ::testing::Test {
 protected:
  /// Opens and starts a Platform with this value.
  void use(const Setting& setting, std::int64_t value) {
    auto text = toml_text(setting.kind, value);
    std::erase(text, '"');
    auto settings = load({.environment = {variable_of(setting) + "=" + text}}).settings;
    settings.platform.log_sink = null_log_sink();
    settings.platform.deploy_schema = true;
    auto platform = Platform::open(url_, settings.platform);
    if (setting.section == "worker") platform.start();
  }

  testing::TemporaryDirectory directory_;
  const std::string url_ = "sqlite:" + (directory_.path() / "x.db").string();
};

TEST_F(ConfigRanges, TheLibraryAcceptsBothEndsOfEveryRange) {
  for (const auto& setting : table()) {
    if (!is_number_of_a_platform(setting)) continue;
    EXPECT_NO_THROW(use(setting, setting.range.least)) << setting.name() << " least";
    EXPECT_NO_THROW(use(setting, setting.range.most)) << setting.name() << " most";
  }
}

}  // namespace
}  // namespace dovetail::config
