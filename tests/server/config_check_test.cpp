// `dovetail config check` refuses what the server would refuse.
#include <filesystem>
#include <fstream>

#include "server/crypto.hpp"
#include "support/backend.hpp"
#include "support/certificate.hpp"
#include "support/paths.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CliConfigCheck : public ::testing::Test {
 protected:
  CommandResult check(const std::string& text) {
    std::ofstream{path} << text;
    return run_command({command_path, "config", "check", path});
  }
  static std::string tls_lines(const ServerTls& tls) {
    return "[server]\ntls_certificate = \"" + tls.certificate_file + "\"\ntls_key = \"" +
           tls.key_file + "\"\n";
  }
  void expect_refused(const std::string& text, const std::string& line, const std::string& part) {
    const auto result = check(text);
    EXPECT_EQ(result.code, 1) << text;
    EXPECT_THAT(result.err, AllOf(HasSubstr(path + ":" + line + ": "), HasSubstr(part),
                                  HasSubstr("1 mistake\n")));
  }

  const TemporaryDirectory directory;
  const std::string path = (directory.path() / "d.toml").string();
};

TEST_F(CliConfigCheck, NamesWhatTheServerRefuses) {
  expect_refused("[server]\naddress = \"0.0.0.0\"\n", "2", "server.address 0.0.0.0 is not of");
  expect_refused("[server]\naddress = \"localhost\"\n", "2", "server.address must be an IP");
  expect_refused("[server]\nport = 1\nbase_path = \"dovetail/\"\n", "3", "base_path must be");
  expect_refused("[server]\ntls_certificate = \"c.pem\"\n", "2", "tls_key is not given");
  expect_refused("[server]\ntls_key = \"k.pem\"\n", "2", "tls_certificate is not given");
  expect_refused("[auth.users.anna]\npassword_hash = \"$nosuchmethod$x$y\"\n", "2",
                 "password_hash must be a hash of crypt(5)");
}

TEST_F(CliConfigCheck, ReadsTheFilesOfTls) {
  const auto one = make_certificate(directory.path(), "one");
  const auto other = make_certificate(directory.path(), "other");
  const auto locked = make_certificate(directory.path(), "locked", {.passphrase = "s3cret"});
  const auto soon = make_certificate(directory.path(), "soon", {.days = 5});
  EXPECT_EQ(check(tls_lines(one)).code, 0);
  expect_refused(tls_lines({"/nowhere/c.pem", one.key_file}), "2",
                 "tls_certificate: the file /nowhere/c.pem cannot be used: No such file");
  expect_refused(tls_lines({one.certificate_file, "/nowhere/k.pem"}), "3",
                 "tls_key: the file /nowhere/k.pem cannot be used: No such file");
  expect_refused(tls_lines({one.certificate_file, other.key_file}), "3", "is not the key of");
  expect_refused(tls_lines(locked), "3", "is encrypted");
  const auto warned = check(tls_lines(soon));
  EXPECT_EQ(warned.code, 0) << warned.err;
  EXPECT_THAT(warned.err, AllOf(HasSubstr("warning: tls_certificate"), HasSubstr("4 days")));
}

TEST_F(CliConfigCheck, AddressesForOthersAreCorrectWithAuthentication) {
  const auto result = check("[server]\naddress = \"0.0.0.0\"\n[auth.tokens.t]\nsha256 = \"" +
                            server::sha256_hex("s3cret") + "\"\n");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(CliConfigCheck, OtherCommandsDoNotNeedTheFilesOfTheServer) {
  std::ofstream{path} << "[server]\naddress = \"0.0.0.0\"\n";
  EXPECT_EQ(run_command({command_path, "config", "show", "--config", path}).code, 0);
  const auto server = run_command(
      {command_path, "server", "--config", path, "--database", "sqlite:" + path + ".db"});
  EXPECT_EQ(server.code, 2);
  EXPECT_THAT(server.err, HasSubstr(path + ":2: server.address"));
}

TEST_F(CliConfigCheck, WarnsOfSecretsThatEverybodyCanRead) {
  namespace fs = std::filesystem;
  const std::string secret = "[database]\nurl = \"postgresql://app:s3cret@h/orders\"\n";
  const auto warned_of = [&](const std::string& text, fs::perms permissions) {
    std::ofstream{path} << text;
    fs::permissions(path, permissions);
    const auto result = check(text);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("s3cret")));
    return result.err ==
           "warning: " + path + " contains a secret, and every user can read it: chmod o-r\n";
  };
  const auto owner = fs::perms::owner_read | fs::perms::owner_write;
  EXPECT_TRUE(warned_of(secret, owner | fs::perms::others_read));
  EXPECT_FALSE(warned_of(secret, owner | fs::perms::group_read));
  EXPECT_FALSE(warned_of("[database]\nurl = \"postgresql://app@h/orders\"\n",
                         owner | fs::perms::others_read));
}

}  // namespace
}  // namespace dovetail::testing
