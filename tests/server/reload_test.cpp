// A running server whose configuration changes.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>

#include "server/crypto.hpp"
#include "support/cli_test.hpp"
#include "support/eventually.hpp"
#include "support/http_client.hpp"

namespace dovetail::testing {
namespace {

constexpr const char* guarded = "/api/v1/session";  // needs the role viewer

std::string bearer_of(const std::string& token) {
  return "Authorization: Bearer " + token;
}

class ServerReload : public CliTest {
 protected:
  ServerReload() { static_cast<void>(backend.open()); }

  void write(const std::string& more) const {
    std::ofstream{file} << "[database]\nurl = \"" << backend.url() << "\"\nschema = \""
                        << backend.schema() << "\"\n[server]\nport = 0\n"
                        << more;
  }
  [[nodiscard]] static std::string token(const std::string& text) {
    return "[auth.tokens.t]\nrole = \"viewer\"\nsha256 = \"" + server::sha256_hex(text) + "\"\n";
  }
  [[nodiscard]] ChildProcess serve() const {
    return ChildProcess([this] {
      if (std::freopen(log_path.c_str(), "w", stderr) == nullptr) ::_exit(126);
      ::execl(command_path, command_path, "server", "--config", file.c_str(), nullptr);
      ::_exit(127);
    });
  }
  [[nodiscard]] std::string log() const {
    std::ifstream in{log_path};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  [[nodiscard]] std::uint16_t port() const {
    static const std::regex line(R"(at http://127\.0\.0\.1:(\d+) )");
    std::smatch match;
    std::string text;
    EXPECT_TRUE(eventually([&] {
      text = log();
      return std::regex_search(text, match, line);
    })) << text;
    return match.empty() ? std::uint16_t{0} : static_cast<std::uint16_t>(std::stoi(match.str(1)));
  }
  [[nodiscard]] bool eventually_answers(std::uint16_t at, const std::string& token, int status) {
    return eventually([&] { return http_get(at, guarded, {bearer_of(token)}).status == status; });
  }

  const std::string file = (directory.path() / "dovetail.toml").string();
  const std::string log_path = (directory.path() / "log").string();
};
DOVETAIL_CONTRACT(ServerReload);

TEST_P(ServerReload, TokensAndHostsChangeWithoutARestart) {
  write(token("old-s3cret"));
  auto process = serve();
  const auto at = port();
  EXPECT_EQ(http_get(at, guarded, {bearer_of("old-s3cret")}).status, 200);
  EXPECT_EQ(http_get(at, guarded, {bearer_of("old-s3cret"), "Host: ops.example.com"}).status, 403);
  write("allowed_hosts = [\"ops.example.com\"]\n" + token("new-s3cret"));
  process.signal(SIGHUP);
  EXPECT_TRUE(eventually_answers(at, "new-s3cret", 200)) << log();
  EXPECT_EQ(http_get(at, guarded, {bearer_of("old-s3cret")}).status, 401);
  EXPECT_EQ(http_get(at, guarded, {bearer_of("new-s3cret"), "Host: ops.example.com"}).status, 200);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << log();
}

TEST_P(ServerReload, ABadFileKeepsTheOldTokens) {
  write(token("old-s3cret"));
  auto process = serve();
  const auto at = port();
  write("[auth.tokens.t]\nrole = \"king\"\nsha256 = \"s3cret\"\n");
  process.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return log().find("config.reload_failed") != std::string::npos; }));
  EXPECT_EQ(http_get(at, guarded, {bearer_of("old-s3cret")}).status, 200);
  EXPECT_EQ(log().find("s3cret"), std::string::npos) << log();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << log();
}

TEST_P(ServerReload, AFileWithoutTokensDoesNotTurnAuthenticationOff) {
  write(token("old-s3cret"));
  auto process = serve();
  const auto at = port();
  write("[log]\nlevel = \"debug\"\n");
  process.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return log().find("config.reload_failed") != std::string::npos; }));
  EXPECT_EQ(http_get(at, guarded).status, 401);
  EXPECT_EQ(http_get(at, guarded, {bearer_of("old-s3cret")}).status, 200);
  EXPECT_NE(log().find(file), std::string::npos) << log();
  EXPECT_NE(log().find("needs a restart"), std::string::npos) << log();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << log();
  EXPECT_EQ(log().find("server.stopped"), std::string::npos)
      << "the level of the log changed: " << log();
}

TEST_P(ServerReload, WhatTheServerWouldRefuseFailsTheReload) {
  write(token("old-s3cret"));
  auto process = serve();
  const auto at = port();
  write("base_path = \"dovetail/\"\n" + token("new-s3cret"));
  process.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return log().find("config.reload_failed") != std::string::npos; }));
  EXPECT_NE(log().find(file + ":6: base_path must be"), std::string::npos) << log();
  EXPECT_EQ(http_get(at, guarded, {bearer_of("old-s3cret")}).status, 200);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << log();
}

}  // namespace
}  // namespace dovetail::testing
