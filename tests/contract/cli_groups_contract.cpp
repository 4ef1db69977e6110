// The command on a group: a file with databases of both engines.
#include <csignal>
#include <fstream>

#include "storage/migrator.hpp"
#include "support/cli_test.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// `a` and `b` use one engine, `c` the other. They have no schema until a test migrates.
class CliGroupsContract : public CliTest {
 protected:
  CliGroupsContract() : CliTest(Tables::none) { write_file(three()); }

  /// "9 migrations ", with the number that this version has.
  [[nodiscard]] std::string all_migrations() const {
    const auto database = backend.open_database();
    return std::to_string(database->store<storage::MigrationStore>().known().size()) +
           " migrations ";
  }

  [[nodiscard]] static std::string line(const std::string& key, const std::string& url,
                                        const std::string& schema = "infra") {
    return key + " = { url = \"" + url + "\", schema = \"" + schema + "\" }\n";
  }
  [[nodiscard]] static std::string line(const std::string& key, const Backend& backend) {
    return line(key, backend.url(), backend.schema());
  }
  [[nodiscard]] std::string three() const {
    return line("a", backend) + line("b", second) + line("c", third);
  }
  [[nodiscard]] std::string down() const {
    return backend.is_postgres() ? "postgresql://127.0.0.1:1/x"
                                 : "sqlite:/nonexistent/directory/x.db";
  }
  /// Writes a new file and renames it, as an operator should do.
  void write_file(const std::string& lines) const {
    std::ofstream{file + ".new"} << "[databases]\n" << lines;
    std::filesystem::rename(file + ".new", file);
  }

  [[nodiscard]] static Words without_variables(const Words& words) {
    Words all{"env", "-u", "DOVETAIL_DATABASE", "-u", "DOVETAIL_GROUP", "-u", "DOVETAIL_SCHEMA"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  [[nodiscard]] Words group_call(const Words& words) const {
    auto all = without_variables({command_path});
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--group", file});
    return all;
  }
  [[nodiscard]] CommandResult on_group(const Words& words) const {
    return run_command(group_call(words));
  }
  [[nodiscard]] json ask_group(Words words, int code = 0) const {
    words.emplace_back("--json");
    const auto result = on_group(words);
    EXPECT_EQ(result.code, code) << ::testing::PrintToString(words) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  void send(const std::string& key, const std::string& topic,
            const std::string& payload = "x") const {
    const auto result = on_group({"enqueue", topic, payload, "--to", key});
    EXPECT_EQ(result.code, 0) << result.err;
  }
  void migrate_all() const { EXPECT_EQ(on_group({"migrate"}).code, 0); }
  /// A dead letter in each of the databases.
  void make_dead_letters(const Words& keys) const {
    for (const auto& key : keys) send(key, "t", "payload of " + key);
    const auto result = on_group({"work", "--once", "--exec", "echo broken >&2; exit 65"});
    EXPECT_EQ(result.code, 0) << result.err;
  }

  [[nodiscard]] ChildProcess in_background(const Words& words) const {
    return ChildProcess([words = group_call(words)] {
      std::vector<char*> argv;
      for (const auto& each : words) argv.push_back(const_cast<char*>(each.c_str()));
      argv.push_back(nullptr);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    });
  }
  [[nodiscard]] std::string contents_of(const std::string& name) const {
    std::ifstream in{directory.path() / name};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  Backend second{GetParam()};
  Backend third{backend.is_postgres() ? BackendKind::sqlite : BackendKind::postgres};
  std::string file = (directory.path() / "group.toml").string();
};
DOVETAIL_CONTRACT(CliGroupsContract);

// --- migrate

TEST_P(CliGroupsContract, MigrateGoesOnAfterAFailureAndARepeatedCallResumes) {
  const auto applied = all_migrations() + "applied\n";
  write_file(line("a", backend) + line("down", down()) + line("wrong", "mysql://x"));
  const auto first = on_group({"migrate"});
  EXPECT_EQ(first.code, 1);
  EXPECT_THAT(first.out,
              AllOf(HasSubstr("a      " + applied), HasSubstr("down   FAILED: "),
                    HasSubstr("wrong  FAILED: the database \"wrong\": a database URL starts with"),
                    HasSubstr("\n3 databases: 1 migrated, 0 up to date, 2 failed\n")));
  EXPECT_THAT(first.err, HasSubstr("Run the same command again"));
  write_file(three());
  const auto second_call = on_group({"migrate"});
  EXPECT_EQ(second_call.code, 0) << second_call.out;
  EXPECT_THAT(
      second_call.out,
      AllOf(HasSubstr("a  up to date\n"), HasSubstr("b  " + applied), HasSubstr("c  " + applied),
            HasSubstr("\n3 databases: 2 migrated, 1 up to date, 0 failed\n")));
}

TEST_P(CliGroupsContract, MigrateTellsInJsonWhatItApplied) {
  write_file(line("a", backend) + line("down", down()));
  const auto answer = ask_group({"migrate"}, 1);
  EXPECT_EQ(answer["databases"][0]["key"], "a");
  EXPECT_EQ(answer["databases"][0]["applied"][0], (json{{"number", 1}, {"name", "outbox"}}));
  EXPECT_TRUE(answer["databases"][0]["error"].is_null());
  EXPECT_TRUE(answer["databases"][1]["error"].is_string());
  EXPECT_EQ(answer["failed"], 1);
}

TEST_P(CliGroupsContract, CheckAndDryRunOfMigrateChangeNothing) {
  EXPECT_EQ(on_group({"migrate", "--only", "a"}).code, 0);
  const auto check = on_group({"migrate", "--check"});
  EXPECT_EQ(check.code, 1);
  EXPECT_THAT(check.out,
              AllOf(HasSubstr("a  up to date\n"), HasSubstr("b  " + all_migrations() + "pending\n"),
                    HasSubstr("2 not up to date, 1 up to date, 0 failed")));
  const auto dry = on_group({"migrate", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, AllOf(HasSubstr("-- database b\nbegin;\n"), HasSubstr("-- database c\n"),
                             HasSubstr("create table"), Not(HasSubstr("-- database a\n"))));
  EXPECT_EQ(on_group({"migrate", "--check"}).out.find("0 not up to date"), std::string::npos);
  migrate_all();
  EXPECT_EQ(on_group({"migrate", "--check"}).code, 0);
}

// --- status

TEST_P(CliGroupsContract, StatusShowsEveryDatabaseAndTheTotals) {
  migrate_all();
  send("a", "t");
  send("c", "t");
  send("c", "t");
  const auto status = on_group({"status"});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_THAT(status.out,
              AllOf(StartsWith("DATABASE  QUEUE   READY"), HasSubstr("\na         outbox  1 "),
                    HasSubstr("\nb         outbox  0 "), HasSubstr("\nc         outbox  2 "),
                    HasSubstr("\n(total)   outbox  3 "), HasSubstr("\n3 databases, 0 failed\n")));
  const auto answer = ask_group({"status"});
  EXPECT_EQ(answer["databases"][2]["key"], "c");
  EXPECT_EQ(answer["databases"][2]["outbox"]["ready"], 2);
  EXPECT_EQ(answer["totals"]["outbox"]["ready"], 3);
  EXPECT_EQ(answer["totals"]["jobs"]["total"], 0);
  EXPECT_EQ(ask_group({"status", "--only", "a,b"})["totals"]["outbox"]["ready"], 1);
}

TEST_P(CliGroupsContract, StatusNamesDatabasesThatFailAndShowsTheOthers) {
  migrate_all();
  const Backend empty(GetParam());
  write_file(three() + line("down", down()) + line("empty", empty) + line("wrong", "mysql://x"));
  const auto status = on_group({"status"});
  EXPECT_EQ(status.code, 1);
  EXPECT_THAT(status.out,
              AllOf(HasSubstr("\nc         outbox  0 "), HasSubstr("\n6 databases, 3 failed\n")));
  EXPECT_THAT(
      status.err,
      AllOf(HasSubstr("dovetail: down FAILED: "), HasSubstr("dovetail: empty FAILED: schema"),
            HasSubstr("dovetail migrate --group " + file), HasSubstr("dovetail: wrong FAILED: ")));
  const auto answer = ask_group({"status"}, 1);
  EXPECT_EQ(answer["failed"], 3);
  EXPECT_THAT(answer["databases"][4]["error"].get<std::string>(), HasSubstr("migrate"));
}

// The server has accepted the connection, and the query waits for a lock.
TEST(CliGroups, StatusDoesNotWaitForADatabaseThatGivesNoAnswer) {
  const Backend locked(BackendKind::postgres);
  const Backend good(BackendKind::sqlite);
  for (const auto* each : {&locked, &good}) static_cast<void>(each->open());
  UserConnection user(locked);
  user.execute("begin");
  user.execute("lock table " + locked.table("outbox") + " in access exclusive mode");
  const TemporaryDirectory directory;
  const auto file = (directory.path() / "group.toml").string();
  std::ofstream{file} << "[databases]\nlocked = { url = \"" << locked.url() << "\", schema = \""
                      << locked.schema() << "\" }\ngood = { url = \"" << good.url()
                      << "\", schema = \"" << good.schema() << "\" }\n";
  const auto status =
      run_command({"env", "-u", "DOVETAIL_DATABASE", command_path, "status", "--group", file});
  EXPECT_EQ(status.code, 1);
  EXPECT_THAT(status.out, HasSubstr("\ngood      outbox  0 "));
  EXPECT_THAT(status.err, HasSubstr("locked FAILED: it gave no answer within 10 seconds"));
}

// --- enqueue

TEST_P(CliGroupsContract, EnqueueGoesToTheDatabaseOfTheKey) {
  migrate_all();
  send("b", "t");
  EXPECT_EQ(second.number("select count(*) from " + second.table("outbox_messages")), 1);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages")), 0);
}

// --- work

TEST_P(CliGroupsContract, WorkRunsTheCommandForTheMessagesOfEveryDatabase) {
  migrate_all();
  for (const auto* key : {"a", "b", "c"}) send(key, "t", key);
  send("a", "other");
  const auto result = on_group({"work", "--once", "--topic", "t", "--threads", "1", "--exec",
                                "echo \"<$DOVETAIL_DATABASE_KEY $(cat)>\""});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("<a a>"), HasSubstr("<b b>"), HasSubstr("<c c>")));
  EXPECT_THAT(result.err, HasSubstr("working on 3 databases of " + file));
  const auto totals = ask_group({"status"})["totals"]["outbox"];
  EXPECT_EQ(totals["done"], 3);
  EXPECT_EQ(totals["ready"], 1);
}

TEST_P(CliGroupsContract, WorkOnceReportsDatabasesThatItCouldNotWorkOn) {
  migrate_all();
  send("a", "t");
  write_file(three() + line("down", down()));
  const auto result = on_group({"work", "--once", "--exec", "true"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("dovetail: down FAILED: "));
  EXPECT_EQ(ask_group({"status", "--only", "a"})["totals"]["outbox"]["done"], 1);
}

TEST_P(CliGroupsContract, WorkFollowsChangesOfTheFileUntilASignal) {
  migrate_all();
  write_file(line("a", backend));
  auto worker =
      in_background({"work", "--quiet", "--idle-poll", "0.5", "--exec",
                     "echo \"$DOVETAIL_DATABASE_KEY\" >> " + (directory.path() / "seen").string()});
  send("a", "t");
  EXPECT_TRUE(eventually([&] { return contents_of("seen") == "a\n"; }));
  write_file(three());
  send("c", "t");
  EXPECT_TRUE(eventually([&] { return contents_of("seen") == "a\nc\n"; }));
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait(), 0);
}

TEST_P(CliGroupsContract, ScheduleFiresTheTimersOfEveryDatabase) {
  migrate_all();
  for (const auto* each : {&backend, &second, &third}) {
    auto platform = Platform::open(each->url(), {.schema = each->schema()});
    platform.timers().schedule({.topic = "t", .delay = std::chrono::milliseconds{1}});
  }
  auto scheduler = in_background({"schedule", "--quiet"});
  EXPECT_TRUE(eventually([&] { return ask_group({"status"})["totals"]["outbox"]["ready"] == 3; }));
  scheduler.signal(SIGTERM);
  EXPECT_EQ(scheduler.wait(), 0);
}

// --- dead letters

TEST_P(CliGroupsContract, DeadLettersAreListedAndCountedWithTheirDatabases) {
  migrate_all();
  make_dead_letters({"a", "c", "c"});
  const auto list = on_group({"dead-letters", "list"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_THAT(list.out, AllOf(StartsWith("DATABASE  MESSAGE "), HasSubstr("\na         "),
                              HasSubstr("\nc         "), Not(HasSubstr("\nb "))));
  EXPECT_EQ(ask_group({"dead-letters", "list"})["databases"][2]["dead_letters"].size(), 2U);
  const auto page = ask_group({"dead-letters", "list", "--limit", "1"});
  const auto next = page["databases"][2]["next_start_after"].get<std::string>();
  EXPECT_EQ(on_group({"dead-letters", "list", "--start-after", next}).code, 2);
  const auto rest = ask_group({"dead-letters", "list", "--start-after", next, "--only", "c"});
  EXPECT_EQ(rest["databases"][0]["dead_letters"].size(), 1U);
  EXPECT_THAT(on_group({"dead-letters", "summary"}).out,
              AllOf(StartsWith("DATABASE  COUNT  TOPIC"), HasSubstr("\na         1      t "),
                    HasSubstr("\nc         2      t ")));
  const auto shown = ask_group({"dead-letters", "show", next});
  EXPECT_EQ(shown["key"], "c");
  EXPECT_EQ(shown["payload"], "payload of c");
}

TEST_P(CliGroupsContract, DeadLettersOfAllDatabasesAreReplayedAndPurged) {
  migrate_all();
  make_dead_letters({"a", "b", "c"});
  const auto id =
      ask_group({"dead-letters", "list"})["databases"][2]["dead_letters"][0]["message_id"]
          .get<std::string>();
  EXPECT_THAT(on_group({"dead-letters", "purge", "--all", "--dry-run"}).out,
              HasSubstr("would purge 3\n"));
  const auto one = on_group({"dead-letters", "replay", id});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, "c  replayed 1\nreplayed 1 of 1 in 3 databases\n");
  EXPECT_EQ(on_group({"dead-letters", "replay", id}).code, 1) << "it is no dead letter any more";
  const auto purged = ask_group({"dead-letters", "purge", "--all", "--only", "a", "--only", "c"});
  EXPECT_EQ(purged["purged"], 1);
  EXPECT_EQ(purged["databases"][0], (json{{"key", "a"}, {"error", nullptr}, {"purged", 1}}));
  const auto totals = ask_group({"status"})["totals"]["outbox"];
  EXPECT_EQ(totals["failed"], 1) << "of b";
  EXPECT_EQ(totals["ready"], 1);
}

// --- lists and fan-outs

TEST_P(CliGroupsContract, ListsShowTheDatabaseOfEachRow) {
  migrate_all();
  EXPECT_EQ(on_group({"jobs", "list"}).out, "no jobs\n");
  EXPECT_EQ(on_group({"jobs", "create", "nightly", "t", "0 3 * * *", "--only", "b"}).code, 0);
  EXPECT_THAT(on_group({"jobs", "list"}).out,
              AllOf(StartsWith("DATABASE  JOB"), HasSubstr("\nb         nightly")));
  const auto jobs = ask_group({"jobs", "list"});
  EXPECT_EQ(jobs["databases"][1]["key"], "b");
  EXPECT_EQ(jobs["databases"][1]["jobs"][0]["name"], "nightly");
  EXPECT_EQ(jobs["databases"][2]["jobs"].size(), 0U);
  EXPECT_EQ(on_group({"streams", "list"}).out, "no stream has messages\n");
  EXPECT_EQ(on_group({"enqueue", "t", "x", "--to", "c", "--stream", "s"}).code, 0);
  EXPECT_THAT(on_group({"streams", "list"}).out, HasSubstr("\nc         s "));
  EXPECT_EQ(ask_group({"streams", "list"})["databases"][2]["streams"][0]["stream"], "s");
  EXPECT_EQ(on_group({"streams", "list", "--start-after", "a"}).code, 2);
  EXPECT_EQ(on_group({"instances"}).out, "no instances are registered\n");
  EXPECT_EQ(ask_group({"instances"})["databases"][0]["instances"].size(), 0U);
}

TEST_P(CliGroupsContract, TimersJoinsLeasesAndSubscriptionsOfAllDatabasesAreListed) {
  migrate_all();
  EXPECT_EQ(on_group({"timers", "list"}).out, "no timers\n");
  EXPECT_EQ(on_group({"timers", "schedule", "t", "--in", "3600", "--only", "b"}).code, 0);
  EXPECT_THAT(on_group({"timers", "list"}).out,
              AllOf(StartsWith("DATABASE  TIMER"), HasSubstr("\nb         ")));
  EXPECT_EQ(ask_group({"timers", "list"})["databases"][1]["timers"].size(), 1U);
  EXPECT_EQ(on_group({"joins", "list"}).out, "no joins\n");
  EXPECT_EQ(ask_group({"joins", "list"})["databases"][0]["joins"].size(), 0U);
  EXPECT_EQ(on_group({"leases", "list"}).out, "no leases are held\n");
  EXPECT_EQ(on_group({"subscriptions", "list"}).out, "there are no subscriptions\n");
  EXPECT_EQ(on_group({"joins", "list", "--start-after", JoinId::generate().to_string()}).code, 2);
}

TEST_P(CliGroupsContract, ATopicIsPausedInAllDatabases) {
  migrate_all();
  EXPECT_EQ(on_group({"pause", "mail", "--only", "b"}).code, 0);
  const auto paused = ask_group({"pause", "mail"});
  EXPECT_EQ(paused["paused"], 2) << "in b it was paused before";
  EXPECT_EQ(paused["databases"][1]["paused"], 0);
  EXPECT_EQ(ask_group({"resume", "mail"})["resumed"], 3);
}

TEST_P(CliGroupsContract, FanoutsOfAllDatabasesAreListedRunAndChanged) {
  migrate_all();
  EXPECT_EQ(on_group({"fanout", "list"}).out, "no fan-outs\n");
  EXPECT_EQ(on_group({"fanout", "run", "etl"}).code, 1);
  for (auto* each : {&backend, &third}) {
    auto options = each->options();
    options.clock = nullptr;  // the clock of the command
    auto platform = Platform::open(each->url(), options);
    platform.fanout().add({.topic = "etl", .work_key = "k", .cron = "0 0 1 1 *"},
                          [](const FanoutPlan&) { return std::vector<FanoutCandidate>{}; });
  }
  EXPECT_THAT(on_group({"fanout", "list"}).out,
              AllOf(StartsWith("DATABASE  TOPIC"), HasSubstr("\na         etl    k         300 s"),
                    HasSubstr("\nc         etl ")));
  const auto run = ask_group({"fanout", "run", "etl"});
  EXPECT_EQ(run["databases"][0]["run_ids"].size(), 1U);
  EXPECT_EQ(run["databases"][1]["run_ids"].size(), 0U) << "b has no such fan-out";
  EXPECT_EQ(run["databases"][2]["run_ids"].size(), 1U);
  EXPECT_EQ(on_group({"fanout", "cursors", "etl"}).out, "no cursors\n");
  const auto set = on_group({"fanout", "cadence", "etl", "k", "--every", "60"});
  EXPECT_EQ(set.code, 0) << set.err;
  EXPECT_THAT(set.out, AllOf(HasSubstr("a  set 1\n"), HasSubstr("c  set 1\n"),
                             HasSubstr("set 2 in 3 databases\n")));
  const auto listed = ask_group({"fanout", "list"})["databases"];
  EXPECT_EQ(listed[0]["fanouts"][0]["every_ms"], 60'000);
  EXPECT_EQ(listed[2]["fanouts"][0]["every_ms"], 60'000);
  EXPECT_EQ(on_group({"fanout", "purge", "etl", "--older-than", "0"}).out,
            "purged 0 in 3 databases\n");
  const auto deleted = ask_group({"fanout", "remove", "etl", "k"});
  EXPECT_EQ(deleted["removed"], 2);
  EXPECT_EQ(deleted["databases"][0]["removed"], 1);
  EXPECT_EQ(on_group({"fanout", "remove", "etl", "k"}).code, 1);
}

// --- mistakes

TEST_P(CliGroupsContract, ABadEntryIsReportedAndTheOthersAreUsed) {
  const auto write = [&] { write_file(line("a", backend) + "x = 5\ny = { schema = \"s\" }\n"); };
  write();
  const auto migrated = on_group({"migrate"});
  EXPECT_EQ(migrated.code, 1);
  EXPECT_THAT(migrated.out, AllOf(HasSubstr("a  " + all_migrations() + "applied\n"),
                                  HasSubstr(":3: x must be a URL"), HasSubstr(":4: y has no url")));
  const auto status = on_group({"status"});
  EXPECT_EQ(status.code, 1);
  EXPECT_THAT(status.out,
              AllOf(HasSubstr("\na         outbox"), HasSubstr("3 databases, 2 failed\n")));
  EXPECT_THAT(status.err, HasSubstr("x FAILED: "));
}

TEST_P(CliGroupsContract, MistakesInTheFileAreNamedWithTheirLine) {
  const auto answer = [&](const std::string& text) {
    std::ofstream{file} << text;
    const auto result = on_group({"status"});
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_THAT(result.err, HasSubstr("tenant-a = \"sqlite:a.db\"")) << "the form of the file";
    return result.err;
  };
  EXPECT_THAT(answer("[databases]\na = sqlite:x.db\n"), HasSubstr(file + ":2: "));
  EXPECT_THAT(answer("[databases]\n"), HasSubstr("[databases] of " + file + " is empty"));
  EXPECT_THAT(answer("x = 1\n"), HasSubstr("there is no table [databases]"));
  EXPECT_THAT(answer("[databases]\na = \"sqlite:x.db\"\na = \"sqlite:y.db\"\n"),
              AllOf(HasSubstr(file + ":3: "), HasSubstr("'a'")));
  std::filesystem::remove(file);
  const auto missing = on_group({"status"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("cannot read " + file + ": No such file"));
}

TEST_P(CliGroupsContract, MistakesInTheCallNameTheRemedy) {
  struct Mistake {
    Words words;
    std::string answer;
  };
  for (const auto& [words, answer] : std::vector<Mistake>{
           {{"status", "-d", "sqlite:x.db"}, "--database and --group are both given"},
           {{"claim"}, "`dovetail claim` works on one database: choose it with --only KEY"},
           {{"claim", "--only", "a,b"}, "`dovetail claim` works on one database"},
           {{"jobs", "trigger", "x"}, "`dovetail jobs trigger` works on one database"},
           {{"status", "--only", "x"}, "has no database \"x\"; did you mean a?"},
           {{"status", "--only", ""}, "--only: must not be empty"},
           {{"enqueue", "t"}, "--to is required with --group"},
           {{"enqueue", "t", "--to", "nobody"}, "has no database \"nobody\"; it has: a, b, c"},
           {{"work", "--exec", "true", "--idle-poll", "0.1"}, "--idle-poll must be 0.5 to 3600"}}) {
    const auto result = on_group(words);
    EXPECT_EQ(result.code, 2) << ::testing::PrintToString(words);
    EXPECT_THAT(result.err, HasSubstr(answer));
  }
  const auto one = [&](const Words& words) {
    auto all = without_variables({command_path});
    all.insert(all.end(), words.begin(), words.end());
    return run_command(all).err;
  };
  EXPECT_THAT(one({"status", "-d", "sqlite:x.db", "--only", "a"}), HasSubstr("give --group FILE"));
  EXPECT_THAT(one({"enqueue", "t", "-d", "sqlite:x.db", "--to", "a"}),
              HasSubstr("give --group FILE"));
  EXPECT_THAT(one({"status"}), HasSubstr("--group FILE or set DOVETAIL_GROUP"));
  const auto unmigrated = on_group({"enqueue", "t", "--to", "a"});
  EXPECT_EQ(unmigrated.code, 1);
  EXPECT_THAT(unmigrated.err, HasSubstr("dovetail migrate --group " + file));
}

TEST_P(CliGroupsContract, OnlyChoosesTheDatabaseOfACommandThatWorksOnOne) {
  migrate_all();
  EXPECT_EQ(on_group({"jobs", "create", "nightly", "t", "0 3 * * *", "--only", "b"}).code, 0);
  EXPECT_THAT(on_group({"jobs", "list", "--only", "b"}).out, HasSubstr("nightly"));
  EXPECT_THAT(on_group({"jobs", "list", "--only", "a"}).out, Not(HasSubstr("nightly")));
}

TEST_P(CliGroupsContract, FlagsBeatTheVariablesAndTwoVariablesAreAmbiguous) {
  migrate_all();
  const auto with = [&](Words words, const Words& call) {
    words.insert(words.begin(), {"env", "-u", "DOVETAIL_DATABASE", "-u", "DOVETAIL_GROUP"});
    words.emplace_back(command_path);
    words.insert(words.end(), call.begin(), call.end());
    return run_command(words);
  };
  const auto group = "DOVETAIL_GROUP=" + file;
  const auto database = "DOVETAIL_DATABASE=" + backend.url();
  EXPECT_THAT(with({group}, {"status"}).out, HasSubstr("3 databases, 0 failed"));
  EXPECT_THAT(with({database}, {"--group", file, "status"}).out,
              HasSubstr("3 databases, 0 failed"));
  const Words one{"status", "-d", backend.url(), "--schema", backend.schema()};
  EXPECT_THAT(with({group}, one).out, HasSubstr("schema " + backend.schema()));
  const auto both = with({group, database}, {"status"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("DOVETAIL_DATABASE and DOVETAIL_GROUP are both set"));
  EXPECT_EQ(with({group}, {"claim"}).code, 2);
  EXPECT_EQ(with({group, database}, {"claim", "--schema", backend.schema()}).code, 0)
      << "it works on one database only: the group does not matter";
}

}  // namespace
}  // namespace dovetail::testing
