// Requests, answers and errors of the HTTP server.
#include <nlohmann/json.hpp>

#include "dovetail/server.hpp"
#include "support/server_test.hpp"

namespace dovetail::testing {
namespace {

class ServerHealth : public ServerTest {};
DOVETAIL_CONTRACT(ServerHealth);

TEST_P(ServerHealth, IsServedWithStatusAndChecks) {
  serve();
  for (const auto* path : {"/health/live", "/health/ready", "/health"}) {
    const auto answer = get(path);
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    EXPECT_EQ(answer.header("content-type"), "application/json");
    EXPECT_EQ(json_of(answer)["status"], "healthy") << path;
  }
}

class ServerProtocol : public SqliteServerTest {};

TEST_F(ServerProtocol, AConnectionServesManyRequests) {
  serve();
  auto connection = client();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(connection.get("/health/live").status, 200);
}

TEST_F(ServerProtocol, PipelinedRequestsAreAnsweredInOrder) {
  serve();
  auto connection = client();
  connection.send(
      "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(connection.receive().status, 200);
  EXPECT_EQ(connection.receive().status, 404);
}

TEST_F(ServerProtocol, ConnectionCloseAndHttp10EndTheConnection) {
  serve();
  auto first = client();
  EXPECT_EQ(first.get("/health/live", {"Connection: close"}).header("connection"), "close");
  EXPECT_TRUE(first.is_closed_by_peer());
  auto second = client();
  second.send("GET /health/live HTTP/1.0\r\n\r\n");
  EXPECT_EQ(second.receive().status, 200);
  EXPECT_TRUE(second.is_closed_by_peer());
}

TEST_F(ServerProtocol, HeadHasTheHeadersOfGetAndNoBody) {
  serve();
  auto connection = client();
  const auto head = connection.ask("HEAD", "/api/v1/session");
  const auto get = connection.get("/api/v1/session");  // not taken for a body
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), std::to_string(get.body.size()));
}

TEST_F(ServerProtocol, OptionsAndWrongMethodsNameTheAllowedOnes) {
  serve();
  const auto options = client().ask("OPTIONS", "/health");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("allow"), "GET, HEAD, OPTIONS");
  const auto wrong = client().ask("DELETE", "/health");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "GET, HEAD, OPTIONS");
}

TEST_F(ServerProtocol, ErrorsAreProblemDetails) {
  serve();
  const auto answer = get("/nowhere");
  EXPECT_EQ(answer.header("content-type"), "application/problem+json");
  const auto problem = nlohmann::json::parse(answer.body);
  EXPECT_EQ(problem["status"], 404);
  EXPECT_EQ(problem["title"], "Not Found");
  EXPECT_EQ(problem["type"], "urn:dovetail:problem:not-found");
  EXPECT_FALSE(problem["detail"].get<std::string>().empty());
}

TEST_F(ServerProtocol, EveryAnswerHasTheSecurityHeaders) {
  serve();
  for (const auto* path : {"/health/live", "/nowhere", "/%zz"}) {
    const auto answer = get(path);
    EXPECT_NE(answer.header("content-security-policy").find("default-src 'none'"),
              std::string::npos);
    EXPECT_EQ(answer.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(answer.header("cache-control"), "no-store");
  }
}

TEST_F(ServerProtocol, BrokenRequestsGet400) {
  serve();
  EXPECT_EQ(get("/%zz").status, 400);
  EXPECT_EQ(get("/a%00b").status, 400);
  EXPECT_EQ(get("/%ff").status, 400);
  EXPECT_EQ(get("/health/live", {"Host: a", "Host: b"}).status, 400);
  auto without_host = client();
  without_host.send("GET /health/live HTTP/1.1\r\n\r\n");
  EXPECT_EQ(without_host.receive().status, 400);
  auto garbage = client();
  garbage.send("\x16\x03\x01 this is not HTTP\r\n\r\n");
  EXPECT_EQ(garbage.receive().status, 400);
  auto smuggled = client();
  smuggled.send(
      "POST /health/live HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(smuggled.receive().status, 400);
}

TEST_F(ServerProtocol, OnlyChunkedBodiesAreTransferred) {
  serve();
  const std::string second = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const auto answer_to = [&](const std::string& version, const std::string& lines) {
    auto connection = client();
    connection.send("POST /api/v1/session HTTP/" + version +
                    "\r\nHost: localhost\r\nConnection: keep-alive\r\n"
                    "Content-Type: application/json\r\n" +
                    lines + "\r\n" + second);
    const auto status = connection.receive().status;
    EXPECT_EQ(connection.receive().status, 0) << "the body was taken for a request: " << lines;
    return status;
  };
  for (const std::string encoding : {"xchunked", "identity", "chunked, identity", "gzip, chunked",
                                     "gzip", "", "chunked,", "chunked;q=1", "\"chunked\""}) {
    EXPECT_EQ(answer_to("1.1", "Transfer-Encoding: " + encoding + "\r\n"), 501) << encoding;
  }
  EXPECT_EQ(answer_to("1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), 400);
  EXPECT_EQ(answer_to("1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(answer_to("1.0", "Transfer-Encoding: chunked\r\n"), 400);
}

TEST_F(ServerProtocol, ChunkedIsWrittenInAnyCase) {
  serve();
  auto connection = client();
  connection.send(
      "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: Chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n");
  const auto answer = connection.receive();
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("password"), std::string::npos)
      << "the body was read: " << answer.body;
  EXPECT_EQ(connection.get("/health/live").status, 200);
}

TEST_F(ServerProtocol, AClientThatVanishesDoesNoHarm) {
  serve();
  { client().send("GET /health"); }
  { client().send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); }
  EXPECT_EQ(get("/health/live").status, 200);
}

TEST_F(ServerProtocol, StopEndsIdleConnectionsAndRefusesNewOnes) {
  serve();
  auto idle = client();
  EXPECT_EQ(idle.get("/health/live").status, 200);
  const auto port = server->port();
  EXPECT_TRUE(server->stop());
  EXPECT_TRUE(idle.is_closed_by_peer());
  EXPECT_THROW(HttpClient{port}, std::system_error);
}

TEST_F(ServerProtocol, APortInUseIsNamed) {
  serve();
  auto options = test_server_options();
  options.port = server->port();
  Server second(platform, options);
  try {
    second.start();
    FAIL() << "both listen on " << options.port;
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string{error.what()}.find("127.0.0.1 port " + std::to_string(options.port)),
              std::string::npos);
  }
}

TEST_F(ServerProtocol, BadOptionsAreRefusedBeforeAnythingIsOpened) {
  auto options = test_server_options();
  options.address = "localhost";
  EXPECT_THROW(Server(platform, options), std::invalid_argument);
  options = test_server_options();
  options.base_path = "dovetail/";
  EXPECT_THROW(Server(platform, options), std::invalid_argument);
  options = test_server_options();
  options.threads = 0;
  EXPECT_THROW(Server(platform, options), std::out_of_range);
  options = test_server_options();
  options.limits.max_header_bytes = 10;
  EXPECT_THROW(Server(platform, options), std::out_of_range);
}

}  // namespace
}  // namespace dovetail::testing
