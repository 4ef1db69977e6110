// Signatures of Standard Webhooks.
#include <fstream>

#include "dovetail/webhook.hpp"
#include "support/backend.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Property;
using ::testing::StartsWith;
using ::testing::Throws;

constexpr const char* known_secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr const char* other_secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
constexpr const char* known_id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
constexpr const char* known_body = R"({"test": 2432232314})";
constexpr std::chrono::sys_seconds known_time{std::chrono::seconds{1614265330}};

WebhookCheck known_check(const std::string& signature, WallTime now = known_time) {
  return {.headers = {known_id, "1614265330", signature}, .body = known_body, .now = now};
}

TEST(WebhookSignature, IsThatOfOtherImplementations) {
  EXPECT_EQ(WebhookSecret{known_secret}.signature(known_id, "1614265330", known_body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST(WebhookSignature, TheSecretMayLackItsPrefix) {
  EXPECT_EQ(WebhookSecret{std::string_view{known_secret}.substr(6)}.signature("a", "1", "b"),
            WebhookSecret{known_secret}.signature("a", "1", "b"));
}

TEST(WebhookSignature, EachSecretGivesASignatureAndEachOfThemIsValid) {
  const std::vector secrets{WebhookSecret{known_secret}, WebhookSecret{other_secret}};
  const auto headers = sign_webhook(known_id, known_time, known_body, secrets);
  EXPECT_EQ(headers.timestamp, "1614265330");
  EXPECT_THAT(headers.signature, HasSubstr(" v1,"));
  for (const auto& secret : secrets) {
    EXPECT_EQ(verify_webhook(known_check(headers.signature), {&secret, 1}), WebhookVerdict::valid);
  }
}

TEST(WebhookSignature, ChangedBytesAreRefused) {
  const std::vector secrets{WebhookSecret{known_secret}};
  auto check = known_check(sign_webhook(known_id, known_time, known_body, secrets).signature);
  EXPECT_EQ(verify_webhook(check, secrets), WebhookVerdict::valid);
  check.body = R"({"test":2432232314})";
  EXPECT_EQ(verify_webhook(check, secrets), WebhookVerdict::wrong_signature);
  check.body = known_body;
  check.headers.id = "msg_2";
  EXPECT_EQ(verify_webhook(check, secrets), WebhookVerdict::wrong_signature);
  check.headers.id = known_id;
  check.headers.timestamp = "1614265331";
  EXPECT_EQ(verify_webhook(check, secrets), WebhookVerdict::wrong_signature);
}

TEST(WebhookSignature, AnotherSecretAndOtherVersionsAreRefused) {
  const std::vector secrets{WebhookSecret{known_secret}};
  const std::vector others{WebhookSecret{other_secret}};
  const auto signature = sign_webhook(known_id, known_time, known_body, secrets).signature;
  EXPECT_EQ(verify_webhook(known_check(signature), others), WebhookVerdict::wrong_signature);
  EXPECT_EQ(verify_webhook(known_check("v2," + signature.substr(3)), secrets),
            WebhookVerdict::wrong_signature);
  EXPECT_EQ(verify_webhook(known_check("v1a,abc v1, v1 ,"), secrets),
            WebhookVerdict::wrong_signature);
  EXPECT_EQ(verify_webhook(known_check(signature), {}), WebhookVerdict::wrong_signature);
}

TEST(WebhookSignature, TheTimestampMustBeWithinTheTolerance) {
  using namespace std::chrono_literals;
  const std::vector secrets{WebhookSecret{known_secret}};
  const auto signature = sign_webhook(known_id, known_time, known_body, secrets).signature;
  const auto at = [&](std::chrono::seconds shift) {
    return verify_webhook(known_check(signature, known_time + shift), secrets);
  };
  EXPECT_EQ(at(300s), WebhookVerdict::valid);
  EXPECT_EQ(at(301s), WebhookVerdict::too_old);
  EXPECT_EQ(at(-300s), WebhookVerdict::valid);
  EXPECT_EQ(at(-301s), WebhookVerdict::too_new);
}

TEST(WebhookSignature, BadHeadersAreNamed) {
  const std::vector secrets{WebhookSecret{known_secret}};
  EXPECT_EQ(verify_webhook({.headers = {"", "1", "v1,a"}}, secrets),
            WebhookVerdict::missing_header);
  EXPECT_EQ(verify_webhook({.headers = {"a", "", "v1,a"}}, secrets),
            WebhookVerdict::missing_header);
  EXPECT_EQ(verify_webhook({.headers = {"a", "1", ""}}, secrets), WebhookVerdict::missing_header);
  for (const auto* bad : {"x", "1.5", "1x", " 1", "99999999999999999999", "-1"}) {
    EXPECT_EQ(verify_webhook({.headers = {"a", bad, "v1,a"}}, secrets),
              WebhookVerdict::bad_timestamp)
        << bad;
  }
}

TEST(WebhookSecret, ABadOneIsRefusedWithoutItsText) {
  for (const auto* bad :
       {"", "whsec_", "whsec_c2hvcnQ=", "whsec_not-base64!", "whsec_MfKQ9r8GKYq"}) {
    EXPECT_THAT([&] { WebhookSecret{bad}; },
                Throws<std::invalid_argument>(Property(
                    &std::exception::what,
                    ::testing::AllOf(HasSubstr("24 to 64 bytes"), Not(HasSubstr("c2hvcnQ"))))))
        << bad;
  }
  EXPECT_THROW(WebhookSecret{"whsec_" + std::string(88, 'A')}, std::invalid_argument);
}

TEST(WebhookSecret, AFileContainsOneOrMore) {
  const TemporaryDirectory folder;
  const auto path = (folder.path() / "secrets").string();
  std::ofstream{path} << known_secret << "\r\n\n" << other_secret << '\n';
  EXPECT_EQ(WebhookSecret::from_file(path).size(), 2U);
  std::ofstream{path} << " \n";
  EXPECT_THROW((void)WebhookSecret::from_file(path), std::invalid_argument);
  EXPECT_THROW((void)WebhookSecret::from_file(path + ".absent"), std::invalid_argument);
  EXPECT_THROW((void)WebhookSecret::from_file(folder.path().string()), std::invalid_argument);
}

}  // namespace
}  // namespace dovetail::testing
