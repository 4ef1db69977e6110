#include "config/value.hpp"

#include <stdexcept>

#include "config/setting.hpp"

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

TEST(ConfigDurations, HaveOneOrMoreUnits) {
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("5min"), 5min);
  EXPECT_EQ(parse_duration("5m"), 5min);
  EXPECT_EQ(parse_duration("1h30m"), 90min);
  EXPECT_EQ(parse_duration("1d2h3min4s5ms"), 26h + 3min + 4s + 5ms);
  EXPECT_EQ(parse_duration("0.5s"), 500ms);
  EXPECT_EQ(parse_duration("1.5h"), 90min);
  EXPECT_EQ(parse_duration("0s"), 0ms);
}

TEST(ConfigDurations, OtherTextsAreRefused) {
  for (const auto* text : {"", "30", "s", "30 s", "-1s", "1s1h", "1s1s", "1.s", ".5s", "0.0005s",
                           "1.05ms", "1x", "1S", "9223372036854775807d", "99999999999999999999s",
                           "106751991167d23h59min", "1h 30min", "30s ", "1e3s"}) {
    EXPECT_THROW(static_cast<void>(parse_duration(text)), std::invalid_argument) << text;
  }
}

TEST(ConfigDurations, TheirTextsCanBeParsed) {
  for (const milliseconds each : {0ms, 1ms, 999ms, milliseconds{1s}, milliseconds{90min},
                                  milliseconds{24h}, milliseconds{25h + 1ms}}) {
    EXPECT_EQ(parse_duration(duration_text(each)), each) << duration_text(each);
  }
  EXPECT_EQ(duration_text(90min), "1h30min");
  EXPECT_EQ(duration_text(24h * 30), "30d");
  EXPECT_EQ(duration_text(0ms), "0s");
}

TEST(ConfigSizes, AreBytesOrHaveABinaryUnit) {
  EXPECT_EQ(parse_size("1000"), 1000);
  EXPECT_EQ(parse_size("7B"), 7);
  EXPECT_EQ(parse_size("64MiB"), 64 << 20);
  EXPECT_EQ(parse_size("1TiB"), std::int64_t{1} << 40);
  for (const auto* text : {"", "MiB", "64MB", "64 MiB", "64mib", "1.5MiB", "-1", "8388608TiB"})
    EXPECT_THROW(static_cast<void>(parse_size(text)), std::invalid_argument) << text;
  EXPECT_EQ(size_text(64 << 20), "64MiB");
  EXPECT_EQ(size_text(1000), "1000B");
  EXPECT_EQ(size_text(0), "0B");
}

TEST(ConfigNumbers, AndBooleansAreStrict) {
  EXPECT_EQ(parse_number("-5"), -5);
  EXPECT_TRUE(parse_boolean("true"));
  EXPECT_FALSE(parse_boolean("false"));
  for (const auto* text : {"", "1.0", "0x10", " 1", "1 ", "+1", "1e3"})
    EXPECT_THROW(static_cast<void>(parse_number(text)), std::invalid_argument) << text;
  for (const auto* text : {"", "yes", "1", "True", "on"})
    EXPECT_THROW(static_cast<void>(parse_boolean(text)), std::invalid_argument) << text;
}

TEST(ConfigText, IsQuotedAsTomlDoes) {
  EXPECT_EQ(toml_string("a \"b\" \\ \n"), R"("a \"b\" \\ \u000A")");
}

TEST(ConfigUrls, AreShownWithoutSecrets) {
  EXPECT_EQ(masked_url("sqlite:orders.db"), "sqlite:orders.db");
  EXPECT_EQ(masked_url("postgresql://localhost/orders"), "postgresql://localhost/orders");
  EXPECT_EQ(masked_url("postgresql://app@h:5432/orders?sslmode=require"),
            "postgresql://app@h:5432/orders?sslmode=require");
  EXPECT_EQ(masked_url("postgresql://app:s3cret@h/orders"), "postgresql://app:***@h/orders");
  EXPECT_EQ(masked_url("postgresql://h/orders?user=app&password=s3cret&sslpassword=x"),
            "postgresql://h/orders?user=app&password=***&sslpassword=***");
}

TEST(ConfigUrls, OfEveryKindHideTheirSecrets) {
  for (const auto* url :
       {"postgresql://app:s3cret@h/orders", "postgresql://app:a@s3cret@h/orders",
        "postgresql://app:a/s3cret@h/orders", "postgresql://app:a?s3cret@h/orders",
        "postgresql://app:a#s3cret@h/orders", "postgresql://app:1/s3cret@h/orders",
        "postgresql://h/orders?p%61ssword=s3cret", "postgresql://h/orders?password=a@s3cret",
        "postgresql://app:b@h/orders?password=a%26s3cret&password=s3cret", "postgres:/app:s3cret@h",
        "host=h password=s3cret", "app:s3cret@h", "s3cret"}) {
    EXPECT_EQ(masked_url(url).find("s3cret"), std::string::npos) << masked_url(url);
  }
}

}  // namespace
}  // namespace dovetail::config
