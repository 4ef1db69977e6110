// Commands that take their settings from a configuration file, the environment and flags.
#include <fstream>

#include "support/cli_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CliConfigContract : public CliTest {
 protected:
  CliConfigContract() : CliTest(Tables::none) {}

  std::string write(const std::string& name, const std::string& text) const {
    const auto path = (directory.path() / name).string();
    std::ofstream{path} << text;
    return path;
  }
  /// A file that names the database of this test.
  std::string configuration(const std::string& more = {}) const {
    return write("dovetail.toml", "[database]\nurl = \"" + backend.url() + "\"\nschema = \"" +
                                      backend.schema() + "\"\n" + more);
  }
  /// Calls the command with `variables` instead of the DOVETAIL_ variables of this process.
  static CommandResult with(const Words& variables, const Words& arguments) {
    Words words{"env",
                "-u",
                "DOVETAIL_DATABASE",
                "-u",
                "DOVETAIL_SCHEMA",
                "-u",
                "DOVETAIL_GROUP",
                "-u",
                "DOVETAIL_CONFIG"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.emplace_back(command_path);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_command(words);
  }
};
DOVETAIL_CONTRACT(CliConfigContract);

TEST_P(CliConfigContract, AWorkerAndStatusRunFromAConfigurationFile) {
  const auto file = configuration("[worker]\nthreads = 2\nbatch_size = 3\nlease = \"20s\"\n");
  EXPECT_EQ(with({}, {"migrate", "--config", file}).code, 0);
  EXPECT_EQ(with({"DOVETAIL_CONFIG=" + file}, {"enqueue", "t", "payload"}).code, 0);
  const auto worker = with({}, {"--config", file, "work", "--once", "--exec", "true"});
  EXPECT_EQ(worker.code, 0) << worker.err;
  EXPECT_THAT(worker.err,
              AllOf(HasSubstr("schema " + backend.schema()), HasSubstr("2 threads, batches of 3")));
  const auto status = with({}, {"status", "--config", file, "--json"});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_EQ(nlohmann::json::parse(status.out)["outbox"]["done"], 1);
}

TEST_P(CliConfigContract, FlagsBeatTheEnvironmentWhichBeatsTheFile) {
  const auto file = configuration("[worker]\nthreads = 2\nbatch_size = 3\n");
  EXPECT_EQ(with({}, {"migrate", "--config", file}).code, 0);
  const Words environment{"DOVETAIL_CONFIG=" + file, "DOVETAIL_WORKER__BATCH_SIZE=5",
                          "DOVETAIL_WORKER__THREADS=6"};
  const auto worker = with(environment, {"work", "--once", "--exec", "true", "--threads", "7"});
  EXPECT_EQ(worker.code, 0) << worker.err;
  EXPECT_THAT(worker.err, HasSubstr("7 threads, batches of 5"));
  const auto elsewhere = with(environment, {"status", "--schema", "elsewhere"});
  EXPECT_EQ(elsewhere.code, 1);
  EXPECT_THAT(elsewhere.err, HasSubstr("elsewhere"));
}

TEST_P(CliConfigContract, TheSchemaIsDeployedByServicesOnly) {
  const auto file = configuration("deploy_schema = true\n");
  EXPECT_EQ(with({}, {"status", "--config", file}).code, 1);
  const auto worker = with({}, {"work", "--config", file, "--once", "--exec", "true"});
  EXPECT_EQ(worker.code, 0) << worker.err;
  EXPECT_EQ(with({}, {"status", "--config", file}).code, 0);
}

TEST_P(CliConfigContract, ASettingOfTheOutboxIsUsed) {
  const auto file = configuration("[outbox]\nmax_payload_bytes = 10\n");
  EXPECT_EQ(with({}, {"migrate", "--config", file}).code, 0);
  EXPECT_EQ(with({}, {"enqueue", "--config", file, "t", "0123456789"}).code, 0);
  const auto refused = with({}, {"enqueue", "--config", file, "t", "0123456789+"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("payload"));
}

TEST_P(CliConfigContract, TheFileMayListADatabasesSection) {
  const auto file = write("group.toml", "[databases]\na = { url = \"" + backend.url() +
                                            "\", schema = \"" + backend.schema() + "\" }\n");
  const auto migrated = with({}, {"migrate", "--config", file});
  EXPECT_EQ(migrated.code, 0) << migrated.err;
  const auto status = with({}, {"status", "--config", file});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_THAT(status.out, HasSubstr("1 database, 0 failed"));
}

TEST_P(CliConfigContract, TheUrlMayBeInAFileOfItsOwn) {
  write("url", backend.url() + "\n");
  const auto file = write(
      "dovetail.toml", "[database]\nurl_file = \"url\"\nschema = \"" + backend.schema() + "\"\n");
  const auto migrated = with({}, {"migrate", "--config", file});
  EXPECT_EQ(migrated.code, 0) << migrated.err;
}

TEST(CliConfig, CheckNamesAllMistakesAndExitsWithOne) {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "d.toml").string();
  std::ofstream{path} << "[worker]\nbatchsize = 1\nlease = \"1ms\"\n";
  const auto result = run_command({command_path, "config", "check", path});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            path + ":2: there is no setting worker.batchsize; did you mean batch_size?\n" + path +
                ":3: worker.lease must be 100ms to 1d, got \"1ms\"\n2 mistakes\n");
  std::ofstream{path} << "[worker]\nbatch_size = 1\n";
  const auto good = run_command({command_path, "config", "check", path});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(good.out, "the configuration is correct\n");
  EXPECT_EQ(run_command({command_path, "config", "check", path, "extra"}).code, 2);
}

TEST(CliConfig, ShowHidesSecretsAndNamesOrigins) {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "d.toml").string();
  std::ofstream{path} << "[database]\nurl = \"postgresql://app:s3cret@h/orders\"\n";
  const Words call{command_path, "config", "show", "--config", path, "--log-level", "info"};
  auto words = call;
  words.emplace_back("--origin");
  const auto shown = run_command(words);
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("url = \"postgresql://app:***@h/orders\"  # file " + path + ":2\n"),
                    HasSubstr("level = \"info\"  # flag --log-level\n"),
                    HasSubstr("lease = \"30s\"  # default\n"), Not(HasSubstr("s3cret"))));
  words = call;
  words.emplace_back("--json");
  const auto json = nlohmann::json::parse(run_command(words).out);
  EXPECT_EQ(json["database"]["url"]["value"], "postgresql://app:***@h/orders");
  EXPECT_EQ(json["database"]["url"]["place"], path + ":2");
  EXPECT_EQ(json["worker"]["batch_size"]["value"], 50);
  EXPECT_EQ(json["worker"]["batch_size"]["origin"], "default");
  EXPECT_TRUE(json["group"]["file"]["value"].is_null());
}

TEST(CliConfig, AMistakeInTheConfigurationIsAWrongCallOfOtherCommands) {
  const auto result = run_command(
      {"env", "DOVETAIL_WORKER__LEASE=long", command_path, "status", "-d", "sqlite:absent.db"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("DOVETAIL_WORKER__LEASE: worker.lease must be a duration"));
}

}  // namespace
}  // namespace dovetail::testing
