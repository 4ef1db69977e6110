#include "config/load.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "config/show.hpp"
#include "support/backend.hpp"

namespace dovetail::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace std::chrono_literals;

class ConfigLoad : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const auto path = (directory_.path() / name).string();
    std::ofstream{path} << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  /// Replaces the folder of the test in messages.
  [[nodiscard]] std::vector<std::string> without_folder(std::vector<std::string> texts) const {
    const auto folder = directory_.path().string() + "/";
    for (auto& text : texts) {
      for (std::size_t at = 0; (at = text.find(folder)) != std::string::npos;)
        text.erase(at, folder.size());
    }
    return texts;
  }
  [[nodiscard]] std::vector<std::string> problems_of(const Sources& sources) const {
    try {
      static_cast<void>(load(sources));
    } catch (const ConfigError& error) {
      return without_folder(error.problems());
    }
    return {};
  }
  std::vector<std::string> problems_of_file(const std::string& text) {
    return problems_of({.file = write("d.toml", text)});
  }

  testing::TemporaryDirectory directory_;
};

// --- layers

TEST_F(ConfigLoad, TheDefaultsAreThoseOfTheLibrary) {
  const auto loaded = load({});
  EXPECT_EQ(loaded.settings.platform.worker.lease, WorkerOptions{}.lease);
  EXPECT_EQ(loaded.settings.platform.schema, PlatformOptions{}.schema);
  EXPECT_EQ(loaded.settings.group.max_connections, GroupOptions{}.max_connections);
  EXPECT_THAT(loaded.origins, IsEmpty());
}

TEST_F(ConfigLoad, FlagsBeatTheEnvironmentWhichBeatsTheFileWhichBeatsDefaults) {
  const auto file = write("d.toml",
                          "[database]\nschema = 'from_file'\n[worker]\nlease = '1min'\n"
                          "threads = 3\nbatch_size = 7\n[log]\nlevel = 'error'\n");
  const auto loaded =
      load({.file = file,
            .environment = {"DOVETAIL_WORKER__LEASE=2min", "DOVETAIL_WORKER__THREADS=5",
                            "DOVETAIL_SCHEMA=from_environment", "PATH=/bin", "DOVETAIL_LOG=x"},
            .flags = {{"database.schema", "--schema", "from_flag"}}});
  const auto& settings = loaded.settings;
  EXPECT_EQ(settings.platform.schema, "from_flag");
  EXPECT_EQ(settings.platform.worker.lease, 2min);
  EXPECT_EQ(settings.platform.worker.threads, 5);
  EXPECT_EQ(settings.platform.worker.batch_size, 7);
  EXPECT_EQ(settings.platform.worker.fetchers, WorkerOptions{}.fetchers);
  EXPECT_EQ(settings.log.level, LogLevel::error);
  EXPECT_EQ(origin_text(loaded.origin_of("database.schema")), "flag --schema");
  EXPECT_EQ(origin_text(loaded.origin_of("worker.lease")), "environment DOVETAIL_WORKER__LEASE");
  EXPECT_EQ(origin_text(loaded.origin_of("worker.batch_size")), "file " + file + ":6");
  EXPECT_EQ(origin_text(loaded.origin_of("worker.fetchers")), "default");
}

TEST_F(ConfigLoad, EverySettingIsReadFromTheFileAndFromTheEnvironment) {
  for (const auto& setting : table()) {
    if (setting.kind == Kind::text || setting.kind == Kind::path || setting.entries) continue;
    auto value = setting.get({});
    if (auto* boolean = std::get_if<bool>(&value)) *boolean = !*boolean;
    if (auto* number = std::get_if<std::int64_t>(&value))
      *number = *number == setting.range.most ? setting.range.least : setting.range.most;
    if (setting.kind == Kind::word)
      value = setting.words.front() == std::get<std::string>(value) ? setting.words.back()
                                                                    : setting.words.front();
    if (setting.kind == Kind::list) value = std::vector<std::string>{"a", "b"};
    const auto toml = toml_text(setting.kind, value);
    const auto file =
        write("d.toml", "[" + setting.section + "]\n" + setting.key + " = " + toml + "\n");
    EXPECT_EQ(setting.get(load({.file = file}).settings), value) << setting.name() << toml;
    auto text = toml;
    std::erase_if(text, [](char c) { return c == '"' || c == '[' || c == ']'; });
    const auto given = load({.environment = {variable_of(setting) + "=" + text}});
    EXPECT_EQ(setting.get(given.settings), value) << variable_of(setting) << text;
  }
}

TEST_F(ConfigLoad, AnEmptyVariableIsNotSet) {
  EXPECT_THAT(load({.environment = {"DOVETAIL_WORKER__LEASE=", "DOVETAIL_DATABASE="}}).origins,
              IsEmpty());
}

TEST_F(ConfigLoad, HeadersOfAMessageAreNoSettings) {
  EXPECT_THAT(problems_of({.environment = {"DOVETAIL_HEADER_X__Y=1"}}), IsEmpty());
}

TEST_F(ConfigLoad, APathInAFileIsRelativeToThatFile) {
  const auto file = write("d.toml", "[group]\nfile = 'tenants.toml'\n");
  EXPECT_EQ(load({.file = file}).settings.group_file,
            (directory_.path() / "tenants.toml").string());
  EXPECT_EQ(load({.environment = {"DOVETAIL_GROUP=tenants.toml"}}).settings.group_file,
            "tenants.toml");
}

// --- mistakes

TEST_F(ConfigLoad, AllMistakesAreReportedAtOnceWithTheirPlaces) {
  const auto file = write("d.toml",
                          "lease = '1s'\n"
                          "[wroker]\nthreads = 1\n"
                          "[worker]\nbatchsize = 5\nthreads = '4'\nbatch_size = 0\nlease = 30\n"
                          "max_bytes = '64MB'\nunknown_topics = 'keep'\n"
                          "[outbox]\nretain_done = '1500ms'\n[schedule]\nfire_timers = 'yes'\n");
  EXPECT_THAT(
      problems_of({.file = file,
                   .environment = {"DOVETAIL_WORKER__LAESE=1s", "DOVETAIL_WORKER__FETCHERS=many"},
                   .flags = {{"log.level", "--log-level", "loud"}}}),
      ElementsAre(
          "d.toml:1: there is no setting lease outside of the sections; did you mean worker.lease?",
          "d.toml:2: there is no section [wroker]; did you mean worker?",
          "d.toml:5: there is no setting worker.batchsize; did you mean batch_size?",
          "d.toml:6: worker.threads must be a whole number without quotes, got \"4\"",
          "d.toml:7: worker.batch_size must be 1 to 10000, got 0",
          "d.toml:8: worker.lease must be a duration such as \"30s\", \"500ms\" or \"1h30min\", "
          "got 30",
          "d.toml:9: worker.max_bytes must be a size such as \"64MiB\", or a number of bytes, "
          "got \"64MB\"",
          "d.toml:10: worker.unknown_topics must be \"leave\" or \"abandon\", got \"keep\"",
          "d.toml:12: outbox.retain_done must be a number of whole seconds, got \"1500ms\"",
          "d.toml:14: schedule.fire_timers must be true or false, without quotes, got \"yes\"",
          "DOVETAIL_WORKER__LAESE: there is no such setting; did you mean DOVETAIL_WORKER__LEASE?",
          "DOVETAIL_WORKER__FETCHERS: worker.fetchers must be a whole number, got \"many\"",
          "--log-level: log.level must be \"debug\", \"info\", \"warn\", \"error\" or \"off\", "
          "got \"loud\""));
}

TEST_F(ConfigLoad, AKeyOfAnotherSectionIsFoundThere) {
  EXPECT_THAT(problems_of_file("[outbox]\nmax_connections = 4\n"),
              ElementsAre("d.toml:2: there is no setting outbox.max_connections; did you mean "
                          "database.max_connections?"));
}

TEST_F(ConfigLoad, ASyntaxErrorHasItsLine) {
  EXPECT_THAT(problems_of_file("[worker]\nthreads = \n"), ElementsAre(HasSubstr("d.toml:2: ")));
}

TEST_F(ConfigLoad, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(problems_of({.file = (directory_.path() / "absent.toml").string()}),
              ElementsAre("absent.toml: cannot be read: No such file or directory"));
  EXPECT_THAT(problems_of({.file = directory_.path().string()}),
              ElementsAre(HasSubstr("cannot be read: Is a directory")));
}

TEST_F(ConfigLoad, ABadUrlAndABadSchemaAreMistakesOfTheirPlaces) {
  EXPECT_THAT(problems_of_file("[database]\nurl = 'mysql:x'\nschema = 'a;b'\n"),
              ElementsAre(AllOf(HasSubstr("d.toml:2: "), HasSubstr("starts with one of")),
                          AllOf(HasSubstr("d.toml:3: "), HasSubstr("schema must match"))));
}

TEST_F(ConfigLoad, TheIdleIntervalIsAtLeastTheOther) {
  EXPECT_THAT(
      problems_of_file("[worker]\npoll_interval = '2s'\nidle_poll_interval = '1s'\n"),
      ElementsAre(
          "d.toml:3: worker.idle_poll_interval must not be less than worker.poll_interval"));
  const auto slow = load({.environment = {"DOVETAIL_WORKER__POLL_INTERVAL=1min"}});
  EXPECT_EQ(slow.settings.platform.worker.idle_poll_interval, 1min);
}

// --- one database or a group

TEST_F(ConfigLoad, OneDatabaseAndAGroupInOneLayerAreAMistake) {
  EXPECT_THAT(
      problems_of_file("[database]\nurl = 'sqlite:a.db'\n[databases]\na = 'sqlite:a.db'\n"),
      ElementsAre("d.toml:2: database.url names one database, and d.toml:3 a group of many; "
                  "remove one of them"));
}

TEST_F(ConfigLoad, OneDatabaseInAHigherLayerReplacesAGroup) {
  const auto file = write("d.toml", "[databases]\na = 'sqlite:a.db'\n");
  EXPECT_EQ(load({.file = file}).settings.group_file, file);
  const auto loaded = load({.file = file, .environment = {"DOVETAIL_DATABASE=sqlite:b.db"}});
  EXPECT_EQ(loaded.settings.url, "sqlite:b.db");
  EXPECT_EQ(loaded.settings.group_file, "");
}

// --- secrets

TEST_F(ConfigLoad, ASecretIsReadFromItsFileWithoutTheLastLineBreak) {
  const auto secret = write("url", "postgresql://app:s3cret@h/orders\r\n");
  const auto file = write("d.toml", "[database]\nurl_file = 'url'\n");
  const auto from_file = load({.file = file});
  EXPECT_EQ(from_file.settings.url, "postgresql://app:s3cret@h/orders");
  EXPECT_THAT(from_file.warnings, IsEmpty());
  const auto variable = load({.environment = {"DOVETAIL_DATABASE__URL_FILE=" + secret}});
  EXPECT_EQ(variable.settings.url, "postgresql://app:s3cret@h/orders");
  EXPECT_EQ(origin_text(variable.origin_of("database.url")),
            "environment DOVETAIL_DATABASE__URL_FILE");
}

TEST_F(ConfigLoad, ASecretThatEverybodyCanReadIsAWarning) {
  const auto secret = write("url", "sqlite:a.db\n", 0644);
  const auto loaded = load({.environment = {"DOVETAIL_DATABASE__URL_FILE=" + secret}});
  EXPECT_THAT(without_folder(loaded.warnings),
              ElementsAre("url contains a secret, and every user can read it: chmod o-r"));
}

TEST_F(ConfigLoad, AMissingOrEmptyFileOfASecretIsAMistake) {
  EXPECT_THAT(problems_of_file("[database]\nurl_file = 'absent'\n"),
              ElementsAre("d.toml:2: database.url_file: absent cannot be read: No such file or "
                          "directory"));
  write("empty", "\n");
  EXPECT_THAT(problems_of_file("[database]\nurl_file = 'empty'\n"),
              ElementsAre("d.toml:2: database.url_file: empty is empty"));
}

TEST_F(ConfigLoad, TwoSourcesOfOneSecretInOneLayerAreAMistake) {
  write("url", "sqlite:a.db");
  EXPECT_THAT(
      problems_of_file("[database]\nurl = 'sqlite:b.db'\nurl_file = 'url'\n"),
      ElementsAre("d.toml:3: database.url is already given by d.toml:2; remove one of them"));
  EXPECT_THAT(problems_of({.environment = {"DOVETAIL_DATABASE=sqlite:a.db",
                                           "DOVETAIL_DATABASE__URL=sqlite:b.db"}}),
              ElementsAre("DOVETAIL_DATABASE__URL: database.url is already given by "
                          "DOVETAIL_DATABASE; remove one of them"));
}

TEST_F(ConfigLoad, AHigherLayerReplacesTheFileOfASecretWithoutReadingIt) {
  const auto file = write("d.toml", "[database]\nurl_file = 'absent'\n");
  EXPECT_EQ(load({.file = file, .environment = {"DOVETAIL_DATABASE=sqlite:b.db"}}).settings.url,
            "sqlite:b.db");
}

TEST_F(ConfigLoad, MistakesAndOutputContainNoSecrets) {
  for (const auto* line : {"url = 'mysql://app:s3cret@h'", "url = ['s3cret']",
                           "url = 'postgresql://app:s3cret@h:port/x'", "ulr = 's3cret'"}) {
    const auto problems = problems_of_file("[database]\n" + std::string{line} + "\n");
    ASSERT_EQ(problems.size(), 1U) << line;
    EXPECT_THAT(problems[0], Not(HasSubstr("s3cret")));
  }
  const auto loaded = load({.environment = {"DOVETAIL_DATABASE=postgresql://app:s3cret@h/orders"}});
  EXPECT_THAT(shown_toml(loaded, true),
              AllOf(HasSubstr("url = \"postgresql://app:***@h/orders\"  # environment "
                              "DOVETAIL_DATABASE\n"),
                    Not(HasSubstr("s3cret"))));
}

// --- the table

TEST_F(ConfigLoad, TheDefaultsAreInTheirRanges) {
  for (const auto& [setting, entry] : places_in({})) {
    EXPECT_NO_THROW(setting->check(setting->get({}))) << setting->name();
  }
}

TEST_F(ConfigLoad, WhatIsShownAndTheExampleCanBeReadAgain) {
  const auto shown = write("shown.toml", shown_toml(load({}), true));
  EXPECT_EQ(shown_toml(load({.file = shown}), false), shown_toml(load({}), false));
  auto example = example_file();
  EXPECT_THAT(load({.file = write("example.toml", example)}).origins, IsEmpty());
  for (std::size_t at = 0; (at = example.find("\n#", at)) != std::string::npos;) {
    if (example[at + 2] != ' ') example.erase(at + 1, 1);
    ++at;
  }
  // One database and a group: all other lines are correct.
  EXPECT_THAT(problems_of_file(example), ElementsAre(HasSubstr("names one database")));
}

}  // namespace
}  // namespace dovetail::config
