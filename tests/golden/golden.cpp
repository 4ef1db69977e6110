// The texts that users see and scripts rely on, word for word. DOVETAIL_UPDATE_GOLDEN=1 writes the
// files again.
#include <sstream>

#include "golden/golden_file.hpp"
#include "postgres/migration_store.hpp"
#include "sqlite/migration_store.hpp"
#include "support/backend.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;

using Command = std::vector<std::string>;

std::string help_of(const Command& command) {
  Command call{"env", "-u", "DOVETAIL_DATABASE", command_path};
  call.insert(call.end(), command.begin(), command.end());
  call.emplace_back("--help");
  return run_command(call).out;
}

/// The names under the heading `Subcommands:`.
std::vector<std::string> subcommands_in(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines{help};
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ")) {
      listed = line == "Subcommands:";
    } else if (listed && line[2] != ' ') {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return names;
}

/// Appends the help of each subcommand, and of their subcommands. Reads the names from the help.
void add_help_below(const Command& parent, const std::string& help_of_parent, std::string& text) {
  for (const auto& name : subcommands_in(help_of_parent)) {
    auto command = parent;
    command.push_back(name);
    const auto help = help_of(command);
    text += "\n--- dovetail";
    for (const auto& word : command) text += " " + word;
    text += " --help\n" + help;
    add_help_below(command, help, text);
  }
}

TEST(Golden, HelpOfEveryCommand) {
  const auto root = help_of({});
  auto text = root;
  add_help_below({}, root, text);
  expect_golden("help.txt", text);
}

// A published migration never changes: lines of this file are only added.
TEST(Golden, MigrationsAreAppendOnly) {
  std::string list;
  const auto add = [&](const std::string& engine, std::span<const storage::Migration> migrations) {
    for (const auto& migration : migrations) {
      list += engine + " " + std::to_string(migration.number) + " " + std::string{migration.name} +
              " " + std::string{migration.checksum} + "\n";
    }
  };
  add("postgres", postgres::migrations());
  add("sqlite", sqlite::migrations());
  expect_golden("migrations.txt", list);
}

TEST(Golden, TheReadmeShowsTheCompiledQuickstart) {
  const auto example = contents(source_dir / "examples" / "quickstart.cpp");
  ASSERT_FALSE(example.empty());
  EXPECT_THAT(contents(source_dir / "README.md"), HasSubstr("```cpp\n" + example + "```"));
}

TEST(Golden, VersionIsTheFilesVersion) {
  EXPECT_EQ(run_command({command_path, "--version"}).out, contents(source_dir / "VERSION"));
}

TEST(Golden, WrongCallsExitWithTwoAndSayWhy) {
  const auto without_database =
      run_command({"env", "-u", "DOVETAIL_DATABASE", command_path, "status"});
  EXPECT_EQ(without_database.code, 2);
  EXPECT_THAT(without_database.err, HasSubstr("--database is required"));
  EXPECT_THAT(without_database.err, HasSubstr("DOVETAIL_DATABASE"));
  const auto unknown = run_command({command_path, "status", "-d", "mysql:x"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("a database URL starts with one of"));
  const auto schema = run_command({command_path, "status", "-d", "sqlite:x.db", "--schema", "a;b"});
  EXPECT_EQ(schema.code, 2);
  EXPECT_THAT(schema.err, HasSubstr("schema must match"));
}

TEST(Golden, TheQuickstartPrintsWhatItHandled) {
  const TemporaryDirectory directory;
  const auto result = run_command({"sh", "-c",
                                   "cd " + directory.path().string() + " && " +
                                       std::string{examples_directory} + "/quickstart"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "email.send {\"order\": \"a chisel\"}\n");
}

TEST(Golden, TheOrderServiceShipsEveryOrderExactlyOnce) {
  const auto result =
      run_command({std::string{examples_directory} + "/order_service", "--orders", "90"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("worker 1 is killed"));
  EXPECT_THAT(result.out, HasSubstr("parcels packed      270"));
  EXPECT_THAT(result.out, HasSubstr("orders shipped      90"));
  EXPECT_THAT(result.out, HasSubstr("Every order was shipped exactly once"));
}

TEST(Golden, TheExampleOfAFanoutCopiesEveryPaymentOnce) {
  const TemporaryDirectory directory;
  const auto result = run_command({"sh", "-c",
                                   "cd " + directory.path().string() + " && " +
                                       std::string{examples_directory} + "/fanout_etl"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "after round 1: 4 payments and 1 vendors in the warehouse\n"
            "after round 2: 8 payments and 2 vendors in the warehouse\n"
            "after round 3: 12 payments and 3 vendors in the warehouse\n");
}

TEST(Golden, TheExamplesOfJoinsDoWhatTheySay) {
  const TemporaryDirectory directory;
  const auto run = [&](const std::string& example) {
    const auto result = run_command({"sh", "-c",
                                     "cd " + directory.path().string() + " && " +
                                         std::string{examples_directory} + "/" + example});
    EXPECT_EQ(result.code, 0) << example << result.out << result.err;
    return result.out;
  };
  EXPECT_EQ(run("join_etl"), "transforming CUST-123 after 3 extractions\n");
  EXPECT_EQ(run("join_report"),
            "assembling RPT-456 from 4 of 5 sections\nthe join is failed: 4 completed, 1 failed\n");
  EXPECT_EQ(
      run("join_workflow"),
      "workflow-7: 3 sources ingested, validating\nworkflow-7: 2 validations passed, published\n");
}

TEST(Golden, TheExampleOfTheCoordinatorProcessesEachOrderOnceAndInOrder) {
  const TemporaryDirectory directory;
  const auto result = run_command({"sh", "-c",
                                   "cd " + directory.path().string() + " && " +
                                       std::string{examples_directory} + "/work_coordinator"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_EQ(result.out,
            "m1 is processed: a chisel\nm2 is processed: a mallet\nm1 is a duplicate\n"
            "m3 is processed: a bench\npublished: a chisel\npublished: a mallet\n"
            "published: a bench\n3 published, 0 waiting, 3 events\n");
}

TEST(Golden, TheExampleOfTenantsHandlesTheOrdersOfEachInItsOwnDatabase) {
  const TemporaryDirectory directory;
  const auto result = run_command({"sh", "-c",
                                   "cd " + directory.path().string() + " && " +
                                       std::string{examples_directory} + "/multi_tenant"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_EQ(result.out, "acme: 2 confirmed\nglobex: 1 confirmed\ninitech: 1 confirmed\n");
}

}  // namespace
}  // namespace dovetail::testing
