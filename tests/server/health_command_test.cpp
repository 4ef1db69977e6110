// `dovetail health --url` against a server.
#include "support/certificate.hpp"
#include "support/eventually.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/server_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HealthCommand : public SqliteServerTest {
 protected:
  static CommandResult ask(const std::string& url, std::vector<std::string> words) {
    words.insert(words.begin(), {command_path, "health", "--url", url});
    return run_command(words);
  }
  CommandResult ask(std::vector<std::string> words = {}) {
    return ask("http://127.0.0.1:" + std::to_string(server->port()), std::move(words));
  }
};

TEST_F(HealthCommand, AsksTheThreeQuestions) {
  serve();
  for (const auto* question : {"live", "ready", "all"}) {
    const auto answer = ask({question});
    EXPECT_EQ(answer.code, 0) << question << answer.err;
    EXPECT_EQ(answer.out, "healthy\n") << question;
  }
  EXPECT_THAT(ask({"ready", "--json"}).out, HasSubstr("\"name\": \"database\""));
}

TEST_F(HealthCommand, AnUnhealthyServerIsExitCodeOne) {
  platform.on("t", [](const Message&, HandlerContext&) {});
  serve();
  const auto answer = ask({"ready"});
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.out, AllOf(HasSubstr("unhealthy\n"), HasSubstr("started: unhealthy: not")));
  EXPECT_EQ(ask({"ready", "--tag", "database"}).code, 0);
  EXPECT_EQ(ask({"live"}).code, 0);
}

TEST_F(HealthCommand, AServerThatCannotBeAskedIsExitCodeTwo) {
  const auto nobody = ask("http://127.0.0.1:1", {"live"});
  EXPECT_EQ(nobody.code, 2);
  EXPECT_THAT(nobody.err,
              AllOf(HasSubstr("cannot ask http://127.0.0.1:1/health/live: "), HasSubstr("onnect")));
  serve();
  const auto base = "http://127.0.0.1:" + std::to_string(server->port());
  const auto elsewhere = ask(base + "/nowhere", {"live"});
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_THAT(elsewhere.err, HasSubstr("answered with the status 404"));
  for (const auto* url : {"ftp://localhost", "localhost:80", "http://", "http://a:b", "http://a b",
                          "http://user@a", "http://a?b"}) {
    const auto wrong = ask(url, {});
    EXPECT_EQ(wrong.code, 2) << url;
    EXPECT_THAT(wrong.err, HasSubstr("--url must be http://")) << url;
  }
}

TEST_F(HealthCommand, AsksOverTlsIfTheCertificateIsTrusted) {
  const TemporaryDirectory directory;
  auto options = test_server_options();
  options.tls = make_certificate(directory.path(), "localhost");
  const auto certificate = options.tls.certificate_file;
  serve(options);
  const auto url = "https://localhost:" + std::to_string(server->port());
  EXPECT_EQ(ask(url, {"live", "--ca-file", certificate}).code, 0);
  EXPECT_EQ(ask(url, {"live"}).code, 2) << "the certificate is not trusted";
}

TEST_F(HealthCommand, ATagThatNoCheckHasIsExitCodeTwo) {
  serve();
  for (const auto& result :
       {ask({"--tag", "nosuch"}), ask({"--tag", "database", "--tag", "nosuch"}),
        run_command({command_path, "health", "--tag", "nosuch", "--database", backend.url(),
                     "--schema", backend.schema()})}) {
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("no check has the tag nosuch"));
  }
  const auto unreachable = run_command({command_path, "health", "--tag", "queue", "--database",
                                        "postgresql://nobody@127.0.0.1:1/none"});
  EXPECT_EQ(unreachable.code, 1) << "without a database, nothing is healthy";
  EXPECT_THAT(unreachable.out, HasSubstr("unhealthy\n"));
}

TEST_F(HealthCommand, LiveNeedsAUrlAndAUrlNeedsNoDatabase) {
  const auto live = run_command({command_path, "health", "live", "--database", backend.url()});
  EXPECT_EQ(live.code, 2);
  EXPECT_THAT(live.err, HasSubstr("--url"));
  const auto both = ask("http://127.0.0.1:1", {"--database", backend.url()});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("give no --database"));
}

}  // namespace
}  // namespace dovetail::testing
