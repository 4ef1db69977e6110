// [transports.NAME], [[publish]] and [[consume]] of the configuration file.
#include <sys/stat.h>

#include <fstream>

#include "config/load.hpp"
#include "support/backend.hpp"
#include "support/memory_broker.hpp"

namespace dovetail::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace std::chrono_literals;
using transport::Key;

/// A kind of broker with settings of every place and type.
transport::Kind memory_kind() {
  using Place = Key::Place;
  using Type = Key::Type;
  const auto broker = std::make_shared<testing::MemoryBroker>();
  return {.name = "memory",
          .schemes = {"memory", "memory+tls"},
          .description = "A broker of tests",
          .keys = {{.name = "password", .secret = true},
                   {.name = "tls_ca", .is_path = true},
                   {.name = "subject", .place = Place::publish},
                   {.name = "durable", .place = Place::consume},
                   {.name = "filters", .place = Place::consume, .type = Type::list}},
          .make_publisher =
              [broker](const transport::Settings& settings) {
                if (settings.text("subject") == "bad") {
                  throw std::invalid_argument("subject must not be bad");
                }
                return std::make_shared<testing::MemoryPublisher>(broker);
              },
          .make_consumer =
              [broker](const transport::Settings&) {
                return std::make_shared<testing::MemoryConsumer>(broker);
              }};
}

class ConfigTransports : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {  // NOLINT(readability-identifier-naming): GoogleTest's name
    static const bool added = [] {
      transport::add_kind(memory_kind());
      return true;
    }();
    static_cast<void>(added);
  }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const auto path = (directory_.path() / name).string();
    std::ofstream{path} << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::vector<std::string> problems_of(const std::string& text) {
    try {
      static_cast<void>(load({.file = write("d.toml", text)}));
    } catch (const ConfigError& error) {
      auto problems = error.problems();
      for (auto& each : problems) each = each.substr(each.find("d.toml"));
      return problems;
    }
    return {};
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(ConfigTransports, RoutesAndSourcesHaveTheSettingsOfTheirBroker) {
  write("secret", "hunter2\n");
  const auto loaded = load({.file = write("d.toml", R"(
[transports.shop]
url = "memory://host"
password_file = "secret"
tls_ca = "ca.pem"
[[publish]]
topic = "order.*"
to = "shop"
subject = "shop.{topic}"
window = 64
timeout = "5s"
max_attempts = 3
on_stream_failure = "park"
[[publish]]
topic = "invoice"
to = "memory+tls://other"
[[consume]]
from = "shop"
source = "memory:SHOP"
durable = "billing"
filters = ["a", "b"]
prefetch = 10
)")});
  const auto& [publish, consume] = loaded.settings.transports;
  ASSERT_THAT(publish, SizeIs(2));
  EXPECT_EQ(publish[0].topic, "order.*");
  EXPECT_EQ(publish[0].broker.url, "memory://host");
  EXPECT_EQ(publish[0].broker.text("password"), "hunter2");
  EXPECT_EQ(publish[0].broker.text("tls_ca"), (directory_.path() / "ca.pem").string());
  EXPECT_EQ(publish[0].broker.text("subject"), "shop.{topic}");
  EXPECT_EQ(publish[0].options.window, 64);
  EXPECT_EQ(publish[0].options.timeout, 5s);
  EXPECT_EQ(publish[0].options.max_attempts, 3);
  EXPECT_EQ(publish[0].options.on_stream_failure, StreamFailure::park);
  EXPECT_EQ(publish[1].broker.url, "memory+tls://other");
  ASSERT_THAT(consume, SizeIs(1));
  EXPECT_EQ(consume[0].options.source, "memory:SHOP");
  EXPECT_EQ(consume[0].options.prefetch, 10);
  EXPECT_THAT(consume[0].broker.list("filters"), ElementsAre("a", "b"));
  EXPECT_THAT(loaded.warnings, IsEmpty());
}

TEST_F(ConfigTransports, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(problems_of("[transports.shop]\nurl = 'memory://h'\npasword = 'x'\n"),
              ElementsAre("d.toml:3: there is no setting transports.shop.pasword of memory; did "
                          "you mean password?"));
  EXPECT_THAT(problems_of("[transports.shop]\nurl = 'memory://h'\n[[publish]]\ntopic = 't'\n"
                          "to = 'shp'\n"),
              ElementsAre(HasSubstr("publish.to: there is no section [transports.shp]; did you "
                                    "mean shop?")));
  EXPECT_THAT(problems_of("[[publish]]\ntopic = 't'\nto = 'ftp://h'\n"),
              ElementsAre(HasSubstr("must begin with one of")));
  EXPECT_THAT(problems_of("[[publish]]\nto = 'memory://h'\n"),
              ElementsAre(HasSubstr("topic is missing")));
  EXPECT_THAT(problems_of("[[consume]]\nsource = 's'\n"),
              ElementsAre(HasSubstr("consume.from is missing")));
  EXPECT_THAT(problems_of("[[publish]]\ntopic = 't'\nto = 'memory://h'\nwindow = '5'\n"),
              ElementsAre("d.toml:4: publish.window must be a whole number without quotes"));
  EXPECT_THAT(problems_of("[[publish]]\ntopic = 't'\nto = 'memory://h'\nwindow = 0\n"),
              ElementsAre(HasSubstr("window must be 1 to 10000, not 0")));
  EXPECT_THAT(problems_of("[[publish]]\ntopic = 't'\nto = 'memory://h'\nsubject = 'bad'\n"),
              ElementsAre(HasSubstr("subject must not be bad")));
  EXPECT_THAT(problems_of("[[publish]]\ntopic = 't'\nto = 'memory://h'\ndurable = 'x'\n"),
              ElementsAre(HasSubstr("there is no setting publish.durable of memory")));
  EXPECT_THAT(problems_of("publish = 3\n"), ElementsAre(HasSubstr("must be an array")));
}

TEST_F(ConfigTransports, SecretsAreNotShownAndTheirFilesAreChecked) {
  const auto problems = problems_of("[[publish]]\ntopic = 't'\nto = 'ftp://me:secret@h'\n");
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].find("secret"), std::string::npos);
  const auto loaded =
      load({.file = write("d.toml",
                          "[transports.s]\nurl = 'memory://h'\npassword = 'x'\n[[publish]]\n"
                          "topic = 't'\nto = 's'\n",
                          0644)});
  EXPECT_THAT(loaded.warnings, ElementsAre(HasSubstr("every user can read it")));
}

TEST_F(ConfigTransports, AGroupHasNoTransports) {
  EXPECT_THAT(problems_of("[group]\nfile = 'g.toml'\n[[publish]]\ntopic = 't'\n"
                          "to = 'memory://h'\n"),
              ElementsAre(HasSubstr("work on one database")));
}

}  // namespace
}  // namespace dovetail::config
