// `dovetail server`.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "support/cli_test.hpp"
#include "support/eventually.hpp"
#include "support/http_client.hpp"
#include "support/span_collector.hpp"

namespace dovetail::testing {
namespace {

/// The socket on which a service manager listens.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::system_error(errno, std::generic_category(), "bind " + path);
  }
  ~NotifySocket() { ::close(socket_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  /// Whether a message begins with `text`, now or soon.
  bool receives(const std::string& text) {
    return eventually([&] {
      char bytes[512];
      const auto size = ::recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
      return size > 0 && std::string(bytes, static_cast<std::size_t>(size)).starts_with(text);
    });
  }

 private:
  int socket_;
};

class ServerCommand : public CliTest {
 protected:
  ServerCommand() { static_cast<void>(backend.open()); }

  [[nodiscard]] ChildProcess serve(Words arguments = {}) const {
    arguments.insert(arguments.begin(), {"server", "--port", "0"});
    return ChildProcess([arguments = call(arguments), log = log_path()] {
      if (std::freopen(log.c_str(), "w", stderr) == nullptr) ::_exit(126);
      std::vector<char*> argv;
      for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    });
  }
  [[nodiscard]] std::string log_path() const { return (directory.path() / "log").string(); }
  [[nodiscard]] std::string log() const {
    std::ifstream in{log_path()};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  /// The port that the line of the start names.
  [[nodiscard]] std::uint16_t port() const {
    std::smatch match;
    std::string text;
    static const std::regex line(R"(at http://127\.0\.0\.1:(\d+)[^ ]* until SIGINT or SIGTERM\n)");
    EXPECT_TRUE(eventually([&] {
      text = log();
      return std::regex_search(text, match, line);
    })) << text;
    return match.empty() ? std::uint16_t{0} : static_cast<std::uint16_t>(std::stoi(match.str(1)));
  }
};
DOVETAIL_CONTRACT(ServerCommand);

TEST_P(ServerCommand, ServesHealthAndRunsTheSchedule) {
  auto process = serve();
  const auto where = port();
  EXPECT_EQ(http_get(where, "/health/live").status, 200);
  EXPECT_EQ(http_get(where, "/health/ready").status, 200);
  ask({"timers", "schedule", "late", "--in", "0"});
  EXPECT_TRUE(eventually([&] { return status()["ready"] == 1; })) << status();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << log();
}

TEST_P(ServerCommand, RunsCommandsForMessagesAndLetsThemFinish) {
  const auto begun = (directory.path() / "begun").string();
  auto process = serve(
      {"--topic", "slow", "--exec", "touch '" + begun + "'; sleep 0.5; exit 0", "--batch", "1"});
  const auto where = port();
  ask({"enqueue", "slow"});
  ask({"enqueue", "other"});
  ASSERT_TRUE(eventually([&] { return std::ifstream{begun}.good(); })) << log();
  EXPECT_EQ(http_get(where, "/health/live").status, 200);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << log();
  EXPECT_EQ(status()["done"], 1);
  EXPECT_EQ(status()["ready"], 1) << "the other topic is not touched";
}

TEST_P(ServerCommand, SendsTheSpansOfItsCommandsToTheCollectorOfTheConfiguration) {
  SpanCollector collector;
  const auto file = (directory.path() / "server.toml").string();
  std::ofstream{file} << "[tracing]\nendpoint = \"" << collector.url()
                      << "\"\nservice_name = \"shop\"\nauthorization = \"Bearer s3cret\"\n";
  auto process = serve({"--config", file, "--topic", "traced", "--exec", "true"});
  static_cast<void>(port());
  ask({"enqueue", "traced"});
  ASSERT_TRUE(eventually([&] { return !collector.spans().empty(); })) << log();
  EXPECT_THAT(collector.spans().at(0).at("name").get<std::string>(),
              ::testing::HasSubstr("traced"));
  const auto request = collector.requests().at(0);
  EXPECT_THAT(request, ::testing::HasSubstr("authorization: Bearer s3cret"));
  EXPECT_THAT(request, ::testing::HasSubstr("shop"));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << log();
  EXPECT_THAT(log(), ::testing::Not(::testing::HasSubstr("s3cret")));
}

TEST_P(ServerCommand, RefusesAWorkerThatCouldNotWork) {
  EXPECT_EQ(dovetail({"server", "--exec", "true", "--read-only"}).code, 2);
  EXPECT_EQ(dovetail({"server", "--exec", ""}).code, 2);
  const auto alone = dovetail({"server", "--topic", "a"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("--exec"), std::string::npos) << alone.err;
}

TEST_P(ServerCommand, EndsInOrderWhileAStreamIsOpenAndIgnoresSighup) {
  auto process = serve({"--log-level", "info"});
  HttpClient viewer(port());
  viewer.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(viewer.receive_until("event: sample").find("event: sample"), std::string::npos);
  process.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return log().find("config.reloaded") != std::string::npos; }));
  EXPECT_EQ(http_get(port(), "/health/live").status, 200);
  process.signal(SIGINT);
  EXPECT_TRUE(viewer.is_closed_by_peer());
  EXPECT_EQ(process.wait(), 0) << log();
}

TEST_P(ServerCommand, TellsTheServiceManager) {
  const auto path = (directory.path() / "notify").string();
  NotifySocket manager(path);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "200000", 1);
  auto process = serve();
  ::unsetenv("NOTIFY_SOCKET");
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_TRUE(manager.receives("READY=1\nSTATUS=serving "));
  EXPECT_TRUE(manager.receives("WATCHDOG=1"));
  EXPECT_TRUE(manager.receives("WATCHDOG=1"));
  process.signal(SIGTERM);
  EXPECT_TRUE(manager.receives("STOPPING=1"));
  EXPECT_EQ(process.wait(), 0);
}

TEST_P(ServerCommand, ExitCodesTellMistakesFromFailures) {
  const auto refused = dovetail({"server", "--address", "0.0.0.0"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("authentication"), std::string::npos) << refused.err;
  auto process = serve();
  const auto in_use = dovetail({"server", "--port", std::to_string(port())});
  EXPECT_EQ(in_use.code, 1);
  EXPECT_NE(in_use.err.find("cannot listen on 127.0.0.1 port"), std::string::npos) << in_use.err;
}

TEST_P(ServerCommand, AReadOnlyServerRunsNoSchedule) {
  auto process = serve({"--read-only"});
  EXPECT_EQ(http_get(port(), "/health/live").status, 200);
  EXPECT_EQ(ask({"instances"}).dump().find("\"host\""), std::string::npos);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << log();
}

}  // namespace
}  // namespace dovetail::testing
