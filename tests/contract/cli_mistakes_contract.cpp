// Mistakes on the command line: each error text names the cause and the remedy.
#include <fstream>

#include "support/cli_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CliMistakesContract : public CliTest {
 protected:
  /// Calls the command with `variables` instead of the DOVETAIL_ variables of this process.
  static CommandResult with(const Words& variables, const Words& arguments) {
    Words words{"env", "-u", "DOVETAIL_DATABASE", "-u", "DOVETAIL_SCHEMA", "-u", "DOVETAIL_GROUP"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.emplace_back(command_path);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_command(words);
  }
};
DOVETAIL_CONTRACT(CliMistakesContract);

// --- flags and the environment

TEST_P(CliMistakesContract, AFlagBeatsTheEnvironmentWhereverItStands) {
  const auto other = "sqlite:" + (directory.path() / "other.db").string();
  EXPECT_EQ(with({}, {"migrate", "-d", other}).code, 0);
  dovetail({"migrate"});
  dead_letter("t");
  const Words environment{"DOVETAIL_DATABASE=" + other, "DOVETAIL_SCHEMA=elsewhere"};
  const auto& url = backend.url();
  const auto& schema = backend.schema();
  for (const auto& words : std::vector<Words>{
           {"dead-letters", "purge", "--all", "--dry-run", "-d", url, "--schema", schema},
           {"dead-letters", "-d", url, "--schema", schema, "purge", "--all", "--dry-run"},
           {"--database", url, "--schema=" + schema, "dead-letters", "purge", "--all",
            "--dry-run"}}) {
    const auto result = with(environment, words);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("would purge 1")) << ::testing::PrintToString(words);
  }
  EXPECT_EQ(
      with(environment, {"dead-letters", "purge", "--all", "-d", url, "--schema", schema}).out,
      "purged 1\n");
}

TEST_P(CliMistakesContract, TheEnvironmentStandsInForAbsentFlags) {
  dovetail({"migrate"});
  const Words environment{"DOVETAIL_DATABASE=" + backend.url(),
                          "DOVETAIL_SCHEMA=" + backend.schema()};
  const auto status = with(environment, {"status"});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_THAT(status.out, HasSubstr("schema " + backend.schema()));
}

TEST_P(CliMistakesContract, AnEmptyOrAmbiguousDatabaseIsNotReplacedByTheEnvironment) {
  dovetail({"migrate"});
  const Words environment{"DOVETAIL_DATABASE=" + backend.url(),
                          "DOVETAIL_SCHEMA=" + backend.schema()};
  const auto empty = with(environment, {"dead-letters", "purge", "--all", "-d", ""});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err, HasSubstr("--database: must not be empty"));
  const auto twice =
      with(environment, {"-d", "sqlite:secret.db", "status", "-d", "sqlite:other.db"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, AllOf(HasSubstr("--database: is given twice"), Not(HasSubstr("secret"))));
}

TEST(CliMistakes, AMissingDatabaseIsAskedForByFlagAndVariable) {
  const auto result = run_command({"env", "-u", "DOVETAIL_DATABASE", command_path, "status"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--database is required"),
                                HasSubstr("-d sqlite:orders.db"), HasSubstr("DOVETAIL_DATABASE")));
}

// --- misspelt words

TEST(CliMistakes, AMisspeltWordIsAnsweredWithTheNearestOne) {
  const auto answer = [](Words words) {
    words.insert(words.begin(), command_path);
    const auto result = run_command(words);
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_THAT(answer({"stauts"}), HasSubstr("did you mean `dovetail status`?"));
  EXPECT_THAT(answer({"-d", "sqlite:x.db", "enqeue", "t"}),
              HasSubstr("did you mean `dovetail enqueue`?"));
  EXPECT_THAT(answer({"dead-letters", "lst"}),
              HasSubstr("did you mean `dovetail dead-letters list`?"));
  EXPECT_THAT(answer({"dead", "list"}), HasSubstr("did you mean `dovetail dead-letters`?"));
  EXPECT_THAT(answer({"xyzzy"}), HasSubstr("there are: migrate, "));
  EXPECT_THAT(answer({"jobs"}), HasSubstr("`dovetail jobs` needs one of: list, create"));
  EXPECT_THAT(answer({"status", "--jsno"}), HasSubstr("did you mean --json?"));
  EXPECT_THAT(answer({"--verison"}), HasSubstr("did you mean --version?"));
  EXPECT_THAT(answer({"version"}), HasSubstr("did you mean `dovetail --version`?"));
  EXPECT_THAT(answer({"purge"}),
              HasSubstr("did you mean `dovetail dead-letters purge`, `dovetail inbox purge`"));
  EXPECT_THAT(answer({"cron", "* * * * *"}), HasSubstr("did you mean `dovetail cron explain`?"));
  EXPECT_THAT(answer({}), HasSubstr("Usage: dovetail"));
  EXPECT_THAT(answer({"--schema", "x"}), HasSubstr("`dovetail` needs one of: migrate, "));
  EXPECT_THAT(answer({"status", "-d"}), HasSubstr("--database needs a value: --database URL"));
}

TEST(CliMistakes, HelpIsACommandToo) {
  EXPECT_EQ(run_command({command_path, "help"}).out, run_command({command_path, "--help"}).out);
  const auto status = run_command({command_path, "help", "status"});
  EXPECT_EQ(status.code, 0);
  EXPECT_THAT(status.out, HasSubstr("Usage: dovetail status"));
}

// --- wrong arguments

TEST(CliMistakes, ACommandInThePlaceOfArgumentsIsAnsweredWithTheForm) {
  const auto answer = [](Words words) {
    words.insert(words.begin(), command_path);
    const auto result = run_command(words);
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  const auto no_name = HasSubstr("NAME is missing: `dovetail lock NAME -- COMMAND`");
  EXPECT_THAT(answer({"lock", "--", "ls"}), no_name);
  EXPECT_THAT(answer({"lock", "--wait", "5", "--", "ls"}), no_name);
  EXPECT_THAT(answer({"lock", "job", "--"}), HasSubstr("COMMAND is missing: `dovetail lock NAME"));
  EXPECT_THAT(answer({"lock", "job", "ls", "-la"}), HasSubstr("`dovetail lock job -- ls -la`"));
  EXPECT_THAT(answer({"lock", "job", "--wiat", "5", "--", "ls"}),
              HasSubstr("did you mean --wait?"));
  EXPECT_THAT(answer({"work", "--exec", "cat", "--", "--once"}), HasSubstr("leave out the --"));
  EXPECT_THAT(answer({"work", "--exec"}), HasSubstr("--exec needs a value: --exec TEXT"));
}

TEST_P(CliMistakesContract, WrongArgumentsAreAnsweredWithTheRuleAndTheValue) {
  dovetail({"migrate"});
  const auto nobody = MessageId::generate().to_string();
  struct Mistake {
    Words words;
    std::string answer;
  };
  for (const auto& [words, answer] : std::vector<Mistake>{
           {{"enqueue"}, "missing: TOPIC (1 to 255 characters)"},
           {{"ack"},
            "missing: --owner (The UUID of the worker that claimed them), CLAIM (<id>:<epoch> as"},
           {{"work"}, "missing: --exec (Run by /bin/sh -c for each message)"},
           {{"lock", "job"}, "missing: COMMAND (After --"},
           {{"work", "--exec", "cat", "--topic", "join.wait"},
            "every worker of Dovetail handles it"},
           {{"timers", "schedule", "t", "--at", "2026-01-31T09:30:00Z"}, "did you mean --due-at?"},
           {{"timers", "schedule", "t", "--delay", "5"}, "did you mean --in?"},
           {{"dead-letters", "replay", "all"}, "for all dead letters write --all"},
           {{"enqueue", "t", "--delay", "-1"}, "--delay must be 0 to "},
           {{"enqueue", "t", "a", "b"},
            "one argument too many: b; a text with spaces or * needs quotes"},
           {{"enqueue", "--topic", "t", "--payload", "p"},
            "there is no option --topic; TOPIC is an argument: `dovetail enqueue TOPIC [PAYLOAD]`"},
           {{"jobs", "create", "--name=n"}, "`dovetail jobs create NAME TOPIC CRON "},
           {{"migrate", "sqlite:orders.db"}, "the database is an option: write -d URL"},
           {{"jobs", "create", "n", "t", "0", "2", "*", "*", "*"}, "needs quotes"},
           {{"enqueue", "t", "--due-at", "tomorrow"},
            R"(--due-at: must be a time such as 2026-01-31T09:30:00Z)"},
           {{"enqueue", "t", "--due-at", "tomorrow"}, R"(got "tomorrow")"},
           {{"enqueue", "t", "--message-id", "42"},
            R"(must be a UUID such as 0190163d-8694-739b-aea5-966c26f8ad91, got "42")"},
           {{"enqueue", "t", "--header", R"({"a":1})"},
            R"(--header must be NAME=VALUE, got {"a":1})"},
           {{"enqueue", "t", "--priority", "9"}, "--priority: Value 9 not in range -5 to 5"},
           {{"enqueue", "t", "--payload-file", "/no/such"}, "cannot read /no/such"},
           {{"enqueue", "t", "--join", nobody}, "join " + nobody + " does not exist"},
           {{"claim", "--lease", "-5"}, "--lease must be 0.001 to 86400 seconds"},
           {{"claim", "--lease", "5m"}, "a number is expected; times are in seconds"},
           {{"timers", "schedule", "t"}, "give either --due-at or --in"},
           {{"jobs", "create", "n", "t", "every day"}, "expected 5 fields"},
           {{"jobs", "create", "n", "t", "@dayly"}, "known are @yearly"},
           {{"jobs", "create", "n", "t", "@daily", "--zone", "Berlin"}, "such as Europe/Berlin"},
           {{"joins", "list", "--status", "done"},
            "done not in {cancelled,completed,failed,pending}"},
           {{"status", "--log-level", "loud"}, "not in {debug,info,warn,error,off}"}}) {
    const auto result = dovetail(words);
    EXPECT_EQ(result.code, 2) << ::testing::PrintToString(words);
    EXPECT_THAT(result.err, HasSubstr(answer)) << ::testing::PrintToString(words);
  }
}

TEST_P(CliMistakesContract, TopicsWithACommaAreOneTopic) {
  dovetail({"migrate"});
  for (const auto& words : {Words{"claim", "--topic", "a,b"},
                            Words{"work", "--once", "--exec", "true", "--topic", "a,b"}}) {
    EXPECT_THAT(dovetail(words).err,
                HasSubstr("--topic a,b names one topic; repeat --topic for several topics"));
  }
}

TEST_P(CliMistakesContract, ADelayedMessageIsScheduled) {
  dovetail({"migrate"});
  EXPECT_EQ(dovetail({"enqueue", "t", "--delay", "3600"}).code, 0);
  EXPECT_EQ(dovetail({"claim"}).out.find(" t "), std::string::npos);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages") +
                           " where status = 0"),
            1);
}

TEST_P(CliMistakesContract, UnknownNamesAreNamed) {
  dovetail({"migrate"});
  const auto nobody = MessageId::generate().to_string();
  struct Mistake {
    Words words;
    std::string answer;
  };
  for (const auto& [words, answer] :
       std::vector<Mistake>{{{"dead-letters", "show", nobody}, "there is no message " + nobody},
                            {{"joins", "show", nobody}, "there is no join " + nobody},
                            {{"jobs", "trigger", "nosuch"}, "there is no job nosuch"},
                            {{"jobs", "runs", "nosuch"}, "there is no job nosuch"},
                            {{"inbox", "show", "a", "b"}, "there is no message b of the source a"},
                            {{"timers", "cancel", nobody}, "there is no such timer"},
                            {{"leases", "release", "nosuch"}, "nobody holds nosuch"}}) {
    const auto result = dovetail(words);
    EXPECT_EQ(result.code, 1) << ::testing::PrintToString(words);
    EXPECT_THAT(result.err, HasSubstr(answer)) << ::testing::PrintToString(words);
  }
}

// --- databases that do not exist

TEST(CliMistakes, AWrongUrlIsAnsweredWithARightOne) {
  const auto answer = [](const std::string& url) {
    const auto result = run_command({command_path, "status", "-d", url});
    EXPECT_EQ(result.code, 2) << url;
    return result.err;
  };
  EXPECT_THAT(
      answer("mysql://localhost/x"),
      HasSubstr("starts with one of sqlite:, postgresql:, postgres:, such as sqlite:orders.db"));
  EXPECT_THAT(answer("orders.db"), HasSubstr("for the file write sqlite:orders.db"));
  EXPECT_THAT(answer("host=localhost password=secret"), Not(HasSubstr("secret")));
  EXPECT_THAT(answer("postgresql://localhost:23233abc/x"), HasSubstr("1 to 65535, got 23233abc"));
  EXPECT_THAT(answer("postgresql://localhost:99999/x"), HasSubstr("1 to 65535, got 99999"));
}

TEST(CliMistakes, AServerThatIsNotThereIsNamed) {
  const auto result = run_command({command_path, "lock", "job", "--wait", "0.2", "-d",
                                   "postgresql://127.0.0.1:1/orders", "--", "true"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("port 1 failed: Connection refused"), HasSubstr("no answer within")));
}

TEST(CliMistakes, ErrorsOfSqliteNameTheFile) {
  const TemporaryDirectory directory;
  const auto answer = [](const std::string& url, const std::string& command) {
    const auto result = run_command({command_path, command, "-d", url});
    EXPECT_NE(result.code, 0);
    return result.err;
  };
  const auto text = (directory.path() / "text.db").string();
  std::ofstream{text} << "This is not a database, but a text that is longer than its header.";
  for (const std::string command : {"status", "migrate"}) {
    EXPECT_THAT(answer("sqlite:" + text, command),
                AllOf(HasSubstr("not a database"), HasSubstr(text)));
  }
  EXPECT_THAT(answer("sqlite:" + directory.path().string(), "status"),
              HasSubstr(directory.path().string()));
  const auto nowhere = (directory.path() / "nowhere" / "orders.db").string();
  EXPECT_THAT(
      answer("sqlite:" + nowhere, "migrate"),
      HasSubstr("the directory " + (directory.path() / "nowhere").string() + " does not exist"));
  EXPECT_THAT(answer("sqlite:" + nowhere, "status"),
              AllOf(HasSubstr("no such file"), HasSubstr(nowhere)));
  EXPECT_THAT(answer("sqlite://orders.db", "status"),
              HasSubstr("has no host: write sqlite:orders.db"));
}

}  // namespace
}  // namespace dovetail::testing
