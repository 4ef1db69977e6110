#include "config/reload.hpp"

#include <fstream>
#include <stdexcept>

#include "dovetail/metrics_registry.hpp"
#include "support/backend.hpp"
#include "unit/recording_sink.hpp"

namespace dovetail::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ConfigReload : public ::testing::Test {
 protected:
  ConfigReload() { reloader_.report_to(Metrics{metrics_}); }

  static void write(const std::string& path, const std::string& text) {
    std::ofstream{path} << text;
  }
  Sources sources() {
    write(path_, "[worker]\nthreads = 1\n[log]\nlevel = 'warn'\n");
    return {.file = path_};
  }
  [[nodiscard]] double gauge() const {
    for (const auto& each : metrics_->snapshot().gauges) {
      if (each.name == "dovetail_config_reload_success") return each.value;
    }
    return -1;
  }
  /// `event field field…` of each record.
  [[nodiscard]] std::vector<std::string> log() const {
    std::vector<std::string> lines;
    for (const auto& record : log_->records()) {
      lines.push_back(record.event);
      for (const auto& [name, value] : record.fields)
        lines.back() += " " + std::get<std::string>(value);
    }
    return lines;
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = (directory_.path() / "d.toml").string();
  std::shared_ptr<MetricsRegistry> metrics_ = std::make_shared<MetricsRegistry>();
  std::shared_ptr<testing::RecordingSink> log_ = std::make_shared<testing::RecordingSink>();
  Sources sources_ = sources();
  Reloader reloader_{sources_, load(sources_), Logger{log_}};
};

TEST_F(ConfigReload, AGoodFileIsApplied) {
  EXPECT_EQ(gauge(), 1);
  LogLevel level = LogLevel::warn;
  reloader_.on_reload([&](const Settings& settings) { level = settings.log.level; });
  write(path_, "[worker]\nthreads = 1\n[log]\nlevel = 'debug'\n");
  EXPECT_TRUE(reloader_.reload());
  EXPECT_EQ(level, LogLevel::debug);
  EXPECT_THAT(log(), ElementsAre("config.reloaded " + path_));
}

TEST_F(ConfigReload, ABadFileChangesNothingAndSaysWhy) {
  int applied = 0;
  reloader_.on_reload([&](const Settings&) { ++applied; });
  write(path_, "[worker]\nthreads = 'x'\n[log]\nlevle = 'debug'\n");
  EXPECT_FALSE(reloader_.reload());
  EXPECT_EQ(applied, 0);
  EXPECT_EQ(gauge(), 0);
  EXPECT_THAT(log(), ElementsAre(AllOf(HasSubstr("config.reload_failed"), HasSubstr("d.toml:2")),
                                 HasSubstr("did you mean level?")));
  write(path_, "[worker]\nthreads = 1\n");
  EXPECT_TRUE(reloader_.reload());
  EXPECT_EQ(gauge(), 1);
}

TEST_F(ConfigReload, SettingsThatNeedARestartAreReportedByName) {
  write(path_, "[database]\nurl = 'postgresql://app:s3cret@h/x'\n[worker]\nthreads = 2\n");
  EXPECT_TRUE(reloader_.reload());
  EXPECT_THAT(log(),
              ElementsAre("config.restart_needed database.url",
                          "config.restart_needed worker.threads", "config.reloaded " + path_));
  // They are reported until the process is restarted, or the file says again what it said.
  write(path_, "[worker]\nthreads = 2\n");
  EXPECT_TRUE(reloader_.reload());
  EXPECT_EQ(log().at(3), "config.restart_needed worker.threads");
}

TEST_F(ConfigReload, SettingsThatCannotBeAppliedFailTheReload) {
  reloader_.on_reload([](const Settings&) { throw std::runtime_error("refused"); });
  EXPECT_FALSE(reloader_.reload());
  EXPECT_EQ(gauge(), 0);
  EXPECT_THAT(log(), ElementsAre("config.reload_failed " + path_ + ": refused"));
}

TEST_F(ConfigReload, ARefusedReloadIsNotHalfApplied) {
  int level_changes = 0;
  bool refuses = true;
  reloader_.after_reload([&](const Settings&) { ++level_changes; });
  reloader_.on_reload([&](const Settings&) {
    if (refuses) throw std::runtime_error("refused");
  });
  EXPECT_FALSE(reloader_.reload());
  EXPECT_EQ(level_changes, 0);
  refuses = false;
  EXPECT_TRUE(reloader_.reload());
  EXPECT_EQ(level_changes, 1);
}

TEST(ConfigLevelSink, PassesOnWhatItsLevelAllows) {
  const auto records = std::make_shared<testing::RecordingSink>();
  const auto sink = std::make_shared<LevelSink>(LogLevel::warn, records);
  const Logger log{sink};
  log.write(LogLevel::info, "a.b", {});
  sink->set_level(LogLevel::info);
  log.write(LogLevel::info, "a.c", {});
  sink->set_level(LogLevel::off);
  log.write(LogLevel::error, "a.d", {});
  ASSERT_EQ(records->records().size(), 1U);
  EXPECT_EQ(records->records()[0].event, "a.c");
}

}  // namespace
}  // namespace dovetail::config
