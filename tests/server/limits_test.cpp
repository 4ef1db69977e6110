// Limits under attack: whatever clients send, memory is bounded and health answers.
#include <fstream>

#include "support/eventually.hpp"
#include "support/route_server.hpp"

namespace dovetail::testing {
namespace {

using server::Capacity;
using server::Request;
using server::Response;
using std::chrono::milliseconds;

/// The peak of this process's memory, in KiB.
std::size_t peak_memory() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6));
  }
  return 0;
}

class ServerLimitsTest : public ::testing::Test {
 protected:
  void start() {
    server = std::make_unique<RouteServer>(options);
    server->add({.method = "GET",
                 .pattern = "/live",
                 .handler = [](const Request&) { return Response{.body = "{}"}; },
                 .capacity = Capacity::at_once});
    server->add({.method = "GET",
                 .pattern = "/health",
                 .handler = [](const Request&) { return Response{.body = "{}"}; },
                 .capacity = Capacity::health});
    server->add({.method = "GET", .pattern = "/slow", .handler = [this](const Request&) {
                   gate.wait();
                   return Response{.body = "slow"};
                 }});
    server->add({.method = "POST", .pattern = "/echo", .handler = [](const Request& request) {
                   return Response{.body = request.body};
                 }});
    server->add({.method = "GET",
                 .pattern = "/stream",
                 .handler =
                     [](const Request&) {
                       return Response{.content_type = "text/event-stream",
                                       .body = ": hello\n\n",
                                       .is_stream = true};
                     },
                 .capacity = Capacity::at_once});
    server->start();
  }
  ~ServerLimitsTest() override { gate.open(); }

  int status_of(const std::string& target) { return server->ask("GET", target).status; }

  const std::vector<std::string> json{"Content-Type: application/json"};
  ServerOptions options;
  Gate gate;
  std::unique_ptr<RouteServer> server;
};

TEST_F(ServerLimitsTest, AHeaderLineOf100MegabytesGets431OrAnEnd) {
  start();
  EXPECT_EQ(status_of("/live"), 200);
  const auto before = peak_memory();
  auto attacker = server->client();
  attacker.send("GET /live HTTP/1.1\r\nHost: localhost\r\nX-Long: ");
  const std::string part(1 << 16, 'a');
  int sent = 0;
  while (sent < 1600 && attacker.send(part)) ++sent;
  EXPECT_LT(sent, 1600) << "the server read all of it";
  EXPECT_LT(peak_memory() - before, 64U << 10U);
  EXPECT_EQ(status_of("/live"), 200);
}

TEST_F(ServerLimitsTest, ALongHeaderGets431AndALongLineGets414) {
  start();
  EXPECT_EQ(server->ask("GET", "/live", {"X-Long: " + std::string(20'000, 'a')}).status, 431);
  EXPECT_EQ(server->ask("GET", "/" + std::string(40'000, 'a')).status, 414);
}

TEST_F(ServerLimitsTest, AnEndlessChunkedBodyGets413) {
  options.limits.max_body_bytes = 64 << 10;
  start();
  auto attacker = server->client();
  attacker.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "1000\r\n" + std::string(0x1000, 'a') + "\r\n";
  int sent = 0;
  while (sent < 10'000 && attacker.send(chunk)) ++sent;
  EXPECT_LT(sent, 10'000);
  EXPECT_EQ(attacker.receive().status, 413);
}

TEST_F(ServerLimitsTest, AnnouncedBodiesThatAreTooLargeGet413BeforeTheyAreSent) {
  start();
  auto client = server->client();
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 99999999999\r\n\r\n");
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(ServerLimitsTest, BodiesArriveWholeAndInChunksAndAfter100Continue) {
  start();
  const std::string body(100'000, 'b');
  EXPECT_EQ(server->ask("POST", "/echo", json, body).body, body);
  auto chunked = server->client();
  chunked.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.receive().body, "abcde");
  auto careful = server->client();
  careful.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(careful.receive().status, 100);
  careful.send("ok");
  EXPECT_EQ(careful.receive().body, "ok");
}

TEST_F(ServerLimitsTest, ASlowHeaderGets408AndASilentConnectionIsClosed) {
  options.limits.header_timeout = milliseconds{50};
  start();
  auto slow = server->client();
  slow.send("GET /live HTT");
  EXPECT_EQ(slow.receive().status, 408);
  EXPECT_TRUE(slow.is_closed_by_peer());
  auto silent = server->client();
  EXPECT_TRUE(silent.is_closed_by_peer());
}

TEST_F(ServerLimitsTest, ASlowBodyGets408) {
  options.limits.body_timeout = milliseconds{50};
  start();
  auto slow = server->client();
  slow.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 10\r\n\r\nabc");
  EXPECT_EQ(slow.receive().status, 408);
}

TEST_F(ServerLimitsTest, IdleConnectionsAreClosed) {
  options.limits.idle_timeout = milliseconds{50};
  start();
  auto client = server->client();
  EXPECT_EQ(client.get("/live").status, 200);
  EXPECT_TRUE(client.is_closed_by_peer());
}

TEST_F(ServerLimitsTest, AHandlerThatTakesTooLongGets503AndItsLateAnswerIsDropped) {
  options.limits.reply_timeout = milliseconds{50};
  start();
  auto client = server->client();
  EXPECT_EQ(client.get("/slow").status, 503);
  EXPECT_TRUE(client.is_closed_by_peer());
  gate.open();
  EXPECT_EQ(status_of("/live"), 200);
}

TEST_F(ServerLimitsTest, SlowRequestsUseUpTheirThreadsAndHealthStillAnswers) {
  options.threads = 2;
  options.limits.max_waiting_requests = 3;
  start();
  std::vector<HttpClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(server->client());
    clients.back().send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if (i >= 2) continue;
    ASSERT_TRUE(eventually([&] { return gate.waiting() == i + 1; }));
  }
  HttpAnswer refused;
  ASSERT_TRUE(eventually([&] {  // until the first five are in their queue
    auto late = server->client();
    late.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    refused = late.receive_within(milliseconds{200});
    return refused.status == 503;
  }));
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(status_of("/live"), 200);
  EXPECT_EQ(status_of("/health"), 200);
  gate.open();
  for (auto& client : clients) EXPECT_NE(client.receive().status, 0);
}

TEST_F(ServerLimitsTest, ANewConnectionReplacesTheOneThatWaitsLongest) {
  options.limits.max_connections = 10;
  start();
  std::vector<HttpClient> idle;
  for (int i = 0; i < 10; ++i) {
    idle.push_back(server->client());
    EXPECT_EQ(idle.back().get("/live").status, 200);
  }
  EXPECT_EQ(status_of("/live"), 200);
  EXPECT_TRUE(idle.front().is_closed_by_peer());
  EXPECT_EQ(idle.back().get("/live").status, 200);
}

TEST_F(ServerLimitsTest, AnAddressHasALimitOfItsOwn) {
  options.limits.max_connections_per_address = 5;
  start();
  std::vector<HttpClient> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(server->client());
    slow.back().send("GET /live HTTP/1.1\r\nX: ");
  }
  EXPECT_EQ(status_of("/live"), 200);
  EXPECT_TRUE(slow.front().is_closed_by_peer());
}

TEST_F(ServerLimitsTest, RequestsWithABodyAreLimited) {
  options.limits.max_bodies = 1;
  start();
  auto slow = server->client();
  slow.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(slow.receive().status, 100);
  EXPECT_EQ(server->ask("POST", "/echo", json, "{}").status, 503);
  slow.send("{}");
  EXPECT_EQ(slow.receive().body, "{}");
  EXPECT_EQ(server->ask("POST", "/echo", json, "{}").body, "{}");
}

TEST_F(ServerLimitsTest, HundredsOfSlowConnectionsAndStreamsLeaveHealthAndMemoryAlone) {
  options.limits.max_event_streams = 50;
  start();
  EXPECT_EQ(status_of("/live"), 200);
  const auto before = peak_memory();
  std::vector<HttpClient> attackers;
  for (int i = 0; i < 250; ++i) {
    attackers.push_back(server->client());
    attackers.back().send("GET /live HTTP/1.1\r\nX-Slow: ");
  }
  std::vector<HttpClient> viewers;
  for (int i = 0; i < 50; ++i) {
    viewers.push_back(server->client());
    viewers.back().send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_NE(viewers.back().receive_until(": hello").find("200 OK"), std::string::npos);
  }
  EXPECT_EQ(status_of("/stream"), 503);
  EXPECT_EQ(status_of("/live"), 200);
  EXPECT_EQ(status_of("/health"), 200);
  EXPECT_LT(peak_memory() - before, 128U << 10U);
}

TEST_F(ServerLimitsTest, EventsReachEveryStreamAndASlowReaderIsDisconnected) {
  start();
  auto reader = server->client();
  reader.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  reader.receive_until(": hello");
  auto sleeper = server->client();
  sleeper.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return server->http().streams() == 2; }));
  const std::string event = "data: " + std::string(100'000, 'x') + "\n\n";
  ASSERT_TRUE(eventually([&] {
    server->http().broadcast(event);
    EXPECT_NE(reader.receive_until("\n\n").size(), 0U);
    return server->http().streams() == 1;
  }));
}

TEST_F(ServerLimitsTest, AStreamEndsWhenItsReaderGoes) {
  start();
  {
    auto reader = server->client();
    reader.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    reader.receive_until(": hello");
    EXPECT_EQ(server->http().streams(), 1U);
  }
  EXPECT_TRUE(eventually([&] { return server->http().streams() == 0; }));
}

TEST_F(ServerLimitsTest, StopEndsStreamsAndLetsRequestsFinish) {
  start();
  auto viewer = server->client();
  viewer.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  viewer.receive_until(": hello");
  auto client = server->client();
  client.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 1; }));
  std::thread stopper([&] { EXPECT_TRUE(server->stop(std::chrono::seconds{60})); });
  EXPECT_TRUE(viewer.is_closed_by_peer());
  gate.open();
  const auto answer = client.receive();
  EXPECT_EQ(answer.body, "slow");
  EXPECT_EQ(answer.header("connection"), "close");
  stopper.join();
}

TEST_F(ServerLimitsTest, StopGivesUpAtItsDeadline) {
  start();
  auto client = server->client();
  client.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 1; }));
  std::thread opener([&] {
    EXPECT_TRUE(client.is_closed_by_peer());
    gate.open();
  });
  EXPECT_FALSE(server->stop(milliseconds{10}));
  opener.join();
}

}  // namespace
}  // namespace dovetail::testing
