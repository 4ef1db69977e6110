// Connections to nats-server: outages, cut connections, TLS and logins.
#include <set>
#include <thread>

#include "support/certificate.hpp"
#include "support/cutting_proxy.hpp"
#include "transport/support/nats_server.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

/// The error of an attempt to connect.
std::string error_of(const NatsOptions& options) {
  try {
    Nats(options).publisher()->probe(call_for(seconds{10}));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(NatsConnection, ABrokerThatIsDownMakesMessagesUnavailableUntilItIsBack) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  const auto publisher = Nats({.urls = {server.url()}}).publisher();
  const std::vector messages{make_message("shop.a")};
  EXPECT_TRUE(all_confirmed(publisher->publish(messages, patient_call())));
  server.kill();
  const std::vector later{make_message("shop.a")};
  try {
    const auto outcomes = publisher->publish(later, call_for(milliseconds{500}));
    EXPECT_EQ(outcomes.at(0).result, PublishResult::unavailable);
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1"));
  }
  EXPECT_THROW(publisher->probe(call_for(milliseconds{500})), std::runtime_error);
  server.start();
  publish_all(*publisher, later, seconds{5});
  EXPECT_NO_THROW(publisher->probe(patient_call()));
  EXPECT_EQ(server.messages_in("SHOP"), 2U);
}

TEST(NatsConnection, ABrokerThatIsSilentMakesMessagesUnavailableAtTheDeadline) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  CuttingProxy proxy(server.url());
  const auto publisher =
      Nats({.urls = {proxy.url()}, .write_timeout = milliseconds{300}}).publisher();
  const std::vector first{make_message("shop.a")};
  EXPECT_TRUE(all_confirmed(publisher->publish(first, patient_call())));
  proxy.freeze();
  std::vector<Message> many;
  for (int i = 0; i < 20; ++i) many.push_back(make_message("shop.a", std::string(1U << 20U, 'x')));
  for (const auto& outcome : publisher->publish(many, call_for(milliseconds{300}))) {
    EXPECT_EQ(outcome.result, PublishResult::unavailable);
    EXPECT_FALSE(outcome.reason.empty());
  }
  proxy.thaw();
  publish_all(*publisher, many, seconds{10});
  EXPECT_EQ(server.messages_in("SHOP"), 21U);
}

TEST(NatsConnection, AStopEndsTheWaitForAConfirmation) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  CuttingProxy proxy(server.url());
  const auto publisher = Nats({.urls = {proxy.url()}}).publisher();
  publisher->probe(patient_call());
  proxy.freeze();
  std::stop_source stop;
  std::jthread stopper([&] {
    while (!proxy.holds_something_back()) std::this_thread::yield();
    stop.request_stop();
  });
  const std::vector messages{make_message("shop.a")};
  const auto outcomes =
      publisher->publish(messages, call_for(std::chrono::minutes{10}, stop.get_token()));
  EXPECT_EQ(outcomes.at(0).result, PublishResult::unavailable);
  proxy.thaw();
}

TEST(NatsConnection, CutConnectionsLoseNoMessageAndRepeatsHaveTheSameId) {
  NatsServer server;
  // The stream recognises no repeated message, so that each arrival counts.
  server.add_stream("SHOP", "shop.>", {{"duplicate_window", 100'000'000}});
  CuttingProxy proxy(server.url());
  const auto publisher = Nats({.urls = {proxy.url()}}).publisher();
  std::set<std::string> expected;
  for (int round = 0; round < 8; ++round) {
    std::vector<Message> messages;
    for (int i = 0; i < 200; ++i) messages.push_back(make_message("shop.a", std::string(200, 'x')));
    for (const auto& message : messages) expected.insert(message.id.to_string());
    proxy.cut_answer_to(messages[static_cast<std::size_t>(round) * 20].id.to_string());
    publish_all(*publisher, messages, seconds{5});
  }
  EXPECT_GE(proxy.cuts(), 4);
  const auto consumer =
      Nats({.urls = {server.url()}}).consumer({.stream = "SHOP", .durable = "check"});
  std::set<std::string> arrived;
  while (arrived.size() < expected.size()) {
    const auto messages = consumer->fetch(1'000, patient_call());
    ASSERT_FALSE(messages.empty()) << "messages are lost";
    for (const auto& message : messages) arrived.insert(message.id);
  }
  EXPECT_EQ(arrived, expected);
}

TEST(NatsConnection, TlsRefusesABrokerWithAnotherName) {
  const TemporaryDirectory folder;
  const auto files = make_certificate(folder.path(), "server");
  NatsServer server("tls { cert_file: \"" + files.certificate_file + "\", key_file: \"" +
                    files.key_file + "\" }");
  const auto port = std::to_string(server.port());
  NatsOptions options{.urls = {"nats+tls://localhost:" + port},
                      .tls = {.ca_file = files.certificate_file}};
  EXPECT_EQ(error_of(options), "");
  options.urls = {"nats+tls://127.0.0.1:" + port};  // the certificate is for localhost
  EXPECT_THAT(error_of(options), HasSubstr("ismatch"));
  options.tls.host_name = "localhost";
  EXPECT_EQ(error_of(options), "");
  options.tls.host_name = "elsewhere.example";
  EXPECT_THAT(error_of(options), HasSubstr("ismatch"));
  options.tls = {};  // nobody trusts the certificate
  options.urls = {"nats+tls://localhost:" + port};
  EXPECT_THAT(error_of(options), HasSubstr("certificate"));
  options.urls = {"nats://localhost:" + port};  // the broker requires TLS
  EXPECT_THAT(error_of(options), HasSubstr("certificate"));
}

TEST(NatsConnection, AClientCertificateIsShownToTheBroker) {
  const TemporaryDirectory folder;
  const auto files = make_certificate(folder.path(), "server");
  NatsServer server("tls { cert_file: \"" + files.certificate_file + "\", key_file: \"" +
                    files.key_file + "\", ca_file: \"" + files.certificate_file +
                    "\", verify: true }");
  NatsOptions options{.urls = {"nats+tls://localhost:" + std::to_string(server.port())},
                      .tls = {.ca_file = files.certificate_file}};
  EXPECT_NE(error_of(options), "");
  options.tls.certificate_file = files.certificate_file;
  options.tls.key_file = files.key_file;
  EXPECT_EQ(error_of(options), "");
}

TEST(NatsConnection, TlsIsRequiredIfTheUrlSaysSo) {
  NatsServer server;
  EXPECT_NE(error_of({.urls = {"nats+tls://127.0.0.1:" + std::to_string(server.port())}}), "");
}

TEST(NatsConnection, LoginsComeFromFilesAndErrorsContainNoSecret) {
  NatsServer server("authorization { user: shop, password: s3cret }");
  const TemporaryDirectory folder;
  const auto file = (folder.path() / "password").string();
  std::ofstream{file} << "s3cret\n";
  EXPECT_EQ(error_of({.urls = {server.url()}, .user = "shop", .password_file = file}), "");
  std::ofstream{file} << "wr0ng\n";
  const auto error = error_of({.urls = {server.url()}, .user = "shop", .password_file = file});
  EXPECT_THAT(error, HasSubstr("Authorization"));
  EXPECT_THAT(error, Not(HasSubstr("wr0ng")));
  EXPECT_THAT(error_of({.urls = {server.url()}, .user = "shop", .password_file = "/missing"}),
              HasSubstr("/missing"));
  const auto port = std::to_string(server.port());
  const NatsOptions in_url{.urls = {"nats://shop:s3cret@127.0.0.1:" + port}};
  EXPECT_EQ(error_of(in_url), "");
  EXPECT_EQ(Nats(in_url).publisher()->address(), "nats://127.0.0.1:" + port);
  EXPECT_THAT(error_of({.urls = {"nats://shop:wr0ng@127.0.0.1:" + port}}), Not(HasSubstr("wr0ng")));
}

TEST(NatsConnection, ATokenComesFromAFile) {
  NatsServer server("authorization { token: t0ken }");
  const TemporaryDirectory folder;
  const auto file = (folder.path() / "token").string();
  std::ofstream{file} << "t0ken";
  EXPECT_EQ(error_of({.urls = {server.url()}, .token_file = file}), "");
  EXPECT_NE(error_of({.urls = {server.url()}, .token = "another"}), "");
}

TEST(NatsConnection, AnotherUrlIsTriedIfOneDoesNotAnswer) {
  NatsServer server;
  const auto dead = "nats://127.0.0.1:" + std::to_string(free_port());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(error_of({.urls = {dead, server.url()}}), "");
}

}  // namespace
}  // namespace dovetail::testing
