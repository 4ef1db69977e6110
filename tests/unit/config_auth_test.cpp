// Tokens and users of the server: settings with names.
#include <fstream>

#include "config/load.hpp"
#include "config/show.hpp"
#include "support/backend.hpp"

namespace dovetail::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string some_hash(64, 'a');

class ConfigAuth : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    std::ofstream{path_} << text;
    return path_;
  }
  std::vector<std::string> problems_of(const std::string& text) {
    try {
      static_cast<void>(load({.file = write(text)}));
    } catch (const ConfigError& error) {
      auto problems = error.problems();
      for (auto& each : problems) each = each.substr(path_.size());
      return problems;
    }
    return {};
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = (directory_.path() / "d.toml").string();
};

TEST_F(ConfigAuth, TokensAndUsersHaveSectionsOfTheirOwn) {
  const auto loaded = load({.file = write("[auth]\nsession_lifetime = \"1h\"\n"
                                          "[auth.tokens.grafana]\nsha256 = \"" +
                                          some_hash +
                                          "\"\n[auth.users.anna]\nrole = \"operator\"\n"
                                          "password_hash = \"$6$salt$0123456789\"\n"),
                            .environment = {"DOVETAIL_AUTH__TOKENS__CI__SHA256=" + some_hash,
                                            "DOVETAIL_AUTH__TOKENS__CI__ROLE=admin"}});
  const auto& auth = loaded.settings.server.auth;
  ASSERT_EQ(auth.tokens.size(), 2U);
  EXPECT_EQ(auth.tokens[0].name, "ci");
  EXPECT_EQ(auth.tokens[0].role, ServerRole::admin);
  EXPECT_EQ(auth.tokens[1].name, "grafana");
  EXPECT_EQ(auth.tokens[1].role, ServerRole::viewer);
  EXPECT_EQ(auth.tokens[1].sha256, some_hash);
  ASSERT_EQ(auth.users.size(), 1U);
  EXPECT_EQ(auth.users[0].name, "anna");
  EXPECT_EQ(auth.users[0].role, ServerRole::operator_);
  EXPECT_EQ(auth.session_lifetime, std::chrono::hours{1});
  EXPECT_THAT(shown_toml(loaded, true),
              AllOf(HasSubstr("[auth.tokens.ci]\nrole = \"admin\"  # environment "
                              "DOVETAIL_AUTH__TOKENS__CI__ROLE\nsha256 = \"***\""),
                    HasSubstr("[auth.users.anna]\n"), Not(HasSubstr("0123456789")),
                    Not(HasSubstr(some_hash))));
}

TEST_F(ConfigAuth, SecretsOfTokensMayBeInFiles) {
  std::ofstream{directory_.path() / "hash"} << some_hash << '\n';
  const auto loaded = load({.file = write("[auth.tokens.t]\nsha256_file = \"hash\"\n")});
  EXPECT_EQ(loaded.settings.server.auth.tokens.at(0).sha256, some_hash);
}

TEST_F(ConfigAuth, MistakesNameTheEntryAndNoSecret) {
  EXPECT_THAT(
      problems_of(
          "[auth.tokens.a]\nsha256 = \"s3cret\"\nrole = \"king\"\n[auth.tokens.b]\nrloe = 1\n"
          "[auth.user.c]\nrole = \"admin\"\n[auth.tokens]\nd = 1\n"),
      ElementsAre(AllOf(HasSubstr(":2: auth.tokens.a.sha256 must be the SHA-256"),
                        Not(HasSubstr("s3cret"))),
                  HasSubstr(":3: auth.tokens.a.role must be \"viewer\""),
                  HasSubstr(":5: there is no setting auth.tokens.b.rloe; did you mean role?"),
                  HasSubstr(":9: auth.tokens.d must be a section"),
                  HasSubstr(":6: there is no setting auth.user; did you mean users?")));
}

TEST_F(ConfigAuth, ATokenNeedsItsHash) {
  EXPECT_THAT(problems_of("[auth.tokens.a]\nrole = \"admin\"\n"),
              ElementsAre(":2: auth.tokens.a.sha256 is missing"));
}

}  // namespace
}  // namespace dovetail::config
