// Signatures against another implementation: the npm package standardwebhooks.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "dovetail/webhook.hpp"
#include "support/process.hpp"
#include "transport/support/http_endpoint.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;

constexpr const char* first_secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr const char* second_secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
constexpr const char* odd_body = "{\"text\": \"ä€😀\\n\",\r\n \"n\": 1.0}";

class StandardWebhooks : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef DOVETAIL_WEBHOOK_PACKAGES
    GTEST_SKIP() << "npm was not found, or could not install the package standardwebhooks";
#endif
  }

  static CommandResult run(std::vector<std::string> words, const std::string& input) {
#ifdef DOVETAIL_WEBHOOK_PACKAGES
    ::setenv("DOVETAIL_WEBHOOK_PACKAGES", DOVETAIL_WEBHOOK_PACKAGES, 1);
    words.insert(words.begin(), {DOVETAIL_NODE, DOVETAIL_WEBHOOK_SCRIPT});
#endif
    return run_command(words, input);
  }
  static std::string as_json(const EndpointRequest& request) {
    return nlohmann::json{{"headers", request.headers}, {"body", request.body}}.dump();
  }
};

TEST_F(StandardWebhooks, AcceptWhatThePublisherSends) {
  HttpEndpoint endpoint([](const auto&) { return EndpointAnswer{}; });
  const auto publisher =
      webhook_publisher({.url = endpoint.url(),
                         .secrets = {WebhookSecret{first_secret}, WebhookSecret{second_secret}},
                         .allowed_networks = {"127.0.0.1"}});
  Message message{.id = MessageId::generate(), .topic = "t"};
  message.payload = odd_body;
  const auto outcomes =
      publisher->publish({&message, 1}, {.deadline = std::chrono::steady_clock::now() + 20s});
  ASSERT_EQ(outcomes.at(0).result, PublishResult::confirmed);

  auto request = endpoint.received().at(0);
  for (const auto* secret : {first_secret, second_secret}) {
    const auto result = run({"verify", secret}, as_json(request));
    EXPECT_EQ(result.code, 0) << result.err;
  }
  request.body += " ";
  EXPECT_NE(run({"verify", first_secret}, as_json(request)).code, 0);
}

TEST_F(StandardWebhooks, SignaturesOfTheirsAreValid) {
  const auto result = run({"sign", first_secret, "msg_1", "1700000000"}, odd_body);
  ASSERT_EQ(result.code, 0) << result.err;
  const std::vector secrets{WebhookSecret{first_secret}};
  const auto signature = result.out.substr(0, result.out.find('\n'));
  EXPECT_EQ(verify_webhook({.headers = {"msg_1", "1700000000", signature},
                            .body = odd_body,
                            .now = WallTime{std::chrono::sys_seconds{1'700'000'000s}}},
                           secrets),
            WebhookVerdict::valid);
}

}  // namespace
}  // namespace dovetail::testing
