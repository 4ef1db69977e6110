// Who may do what: roles, tokens, sessions, Host, pages of other sites, TLS.
#include <crypt.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "server/crypto.hpp"
#include "server/request_rules.hpp"
#include "support/certificate.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"
#include "support/recorded_lines.hpp"
#include "support/route_server.hpp"
#include "support/server_test.hpp"

namespace dovetail::testing {
namespace {

using server::Request;
using server::Response;
using Lines = std::vector<std::string>;

const std::string json_type = "Content-Type: application/json";

ServerToken token_of(const std::string& name, const std::string& token, ServerRole role) {
  return {.name = name, .sha256 = server::sha256_hex(token), .role = role};
}

std::string hash_of(const std::string& password) {
  crypt_data data{};
  return ::crypt_r(password.c_str(), "$5$rounds=1000$saltsalt$", &data);
}

ServerAuth all_roles() {
  return {.tokens = {token_of("v", "view-secret", ServerRole::viewer),
                     token_of("o", "operate-secret", ServerRole::operator_),
                     token_of("a", "admin-secret", ServerRole::admin)},
          .users = {{"alice", hash_of("open sesame"), ServerRole::operator_}}};
}

std::string bearer(const std::string& token) {
  return "Authorization: Bearer " + token;
}

class ServerSecurity : public ::testing::Test {
 protected:
  void start() {
    server = std::make_unique<RouteServer>(options);
    const auto answer = [this](const Request& request) {
      ++calls;
      return Response{.body = request.identity.name};
    };
    server->add({.method = "GET", .pattern = "/public", .handler = answer});
    server->add(
        {.method = "GET", .pattern = "/view", .role = ServerRole::viewer, .handler = answer});
    for (const auto* method : {"POST", "PUT", "PATCH", "DELETE"}) {
      server->add({.method = method,
                   .pattern = "/operate",
                   .role = ServerRole::operator_,
                   .handler = answer});
    }
    server->add(
        {.method = "POST", .pattern = "/purge", .role = ServerRole::admin, .handler = answer});
    server->start();
  }
  int post(const std::string& target, Lines lines) {
    lines.push_back(json_type);
    return server->ask("POST", target, lines, "{}").status;
  }

  ServerOptions options;
  std::atomic<int> calls = 0;
  std::unique_ptr<RouteServer> server;
};

TEST_F(ServerSecurity, EachRouteNeedsItsRole) {
  options.auth = all_roles();
  start();
  EXPECT_EQ(server->ask("GET", "/public").status, 200);
  const auto nobody = server->ask("GET", "/view");
  EXPECT_EQ(nobody.status, 401);
  EXPECT_EQ(nobody.header("www-authenticate"), "Bearer");
  EXPECT_EQ(server->ask("GET", "/view", {bearer("view-secret")}).body, "v");
  EXPECT_EQ(post("/operate", {}), 401);
  EXPECT_EQ(post("/operate", {bearer("view-secret")}), 403);
  EXPECT_EQ(post("/operate", {bearer("operate-secret")}), 200);
  EXPECT_EQ(post("/purge", {bearer("operate-secret")}), 403);
  EXPECT_EQ(post("/purge", {bearer("admin-secret")}), 200);
}

TEST_F(ServerSecurity, AViewerReachesNoRouteThatChangesData) {
  options.auth = all_roles();
  start();
  for (const auto* method : {"POST", "PUT", "PATCH", "DELETE"}) {
    EXPECT_EQ(server->ask(method, "/operate", {bearer("view-secret"), json_type}, "{}").status,
              403);
  }
  EXPECT_EQ(calls, 0);
}

TEST_F(ServerSecurity, WrongTokensAreRefused) {
  options.auth = all_roles();
  start();
  for (const std::string wrong : {"Bearer wrong", "Bearer ", "Bearer", "bearer view-secre",
                                  "Basic dmlldy1zZWNyZXQ=", "Bearer view-secret2", "view-secret"}) {
    EXPECT_EQ(server->ask("GET", "/view", {"Authorization: " + wrong}).status, 401) << wrong;
  }
  EXPECT_EQ(server->ask("GET", "/view", {"authorization: bearer view-secret"}).status, 200);
}

TEST_F(ServerSecurity, ForgedHostsAreRefused) {
  options.allowed_hosts = {"ops.example.com"};
  start();
  for (const std::string host : {"localhost", "127.0.0.1:80", "[::1]:8420", "ops.example.com",
                                 "OPS.example.com:443", "10.0.0.1"}) {
    EXPECT_EQ(server->ask("GET", "/view", {"Host: " + host}).status, 200) << host;
  }
  for (const std::string host :
       {"evil.example.com", "localhost.evil.com", "127.0.0.1.nip.io", "example.com", "",
        "[::1].evil.com", "[localhost", "[localhost]", "localhost:80.evil.com", "localhost:x",
        "[::1]:80x", "[]", "127.0.0.1@evil.com", "localhost:123456"}) {
    const auto answer = server->ask("GET", "/view", {"Host: " + host});
    EXPECT_EQ(answer.status, 403) << host;
    EXPECT_NE(answer.body.find("allowed_hosts"), std::string::npos);
  }
  EXPECT_EQ(server->ask("GET", "/public", {"Host: pod-17.cluster"}).status, 200);
}

TEST_F(ServerSecurity, AnAbsoluteUrlMustHaveAnAllowedHost) {
  options.allowed_hosts = {"ops.example.com"};
  start();
  for (const std::string url : {"http://localhost/view", "http://ops.example.com:80/view?a=b"})
    EXPECT_EQ(server->ask("GET", url).status, 200) << url;
  for (const std::string url :
       {"http://evil.com/view", "http://localhost@evil.com/view", "http://[::1].evil.com/view"}) {
    EXPECT_EQ(server->ask("GET", url).status, 403) << url;
  }
  EXPECT_EQ(server->ask("GET", "http://localhost/view", {"Host: evil.com"}).status, 403);
}

TEST_F(ServerSecurity, PagesOfOtherSitesCannotChangeData) {
  start();
  EXPECT_EQ(post("/operate", {"Sec-Fetch-Site: same-origin"}), 200);
  EXPECT_EQ(post("/operate", {}), 200) << "a program such as curl";
  EXPECT_EQ(post("/operate", {"Origin: http://localhost"}), 200);
  EXPECT_EQ(calls, 3);
  for (const std::string line :
       {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: none",
        "Origin: http://evil.example.com", "Origin: null", "Origin: http://localhost:81"}) {
    EXPECT_EQ(post("/operate", {line}), 403) << line;
  }
  EXPECT_EQ(calls, 3);
}

TEST_F(ServerSecurity, ChangesNeedJson) {
  start();
  for (const Lines& lines : {Lines{}, Lines{"Content-Type: text/plain"},
                             Lines{"Content-Type: application/x-www-form-urlencoded"},
                             Lines{"Content-Type: text/plain; application/json"}}) {
    EXPECT_EQ(server->ask("POST", "/operate", lines, "{}").status, 415);
  }
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(
      server->ask("POST", "/operate", {"Content-Type: application/json; charset=utf-8"}).status,
      200);
  EXPECT_EQ(server->ask("DELETE", "/operate").status, 200);
}

TEST_F(ServerSecurity, AReadOnlyServerRefusesChanges) {
  options.read_only = true;
  start();
  EXPECT_EQ(server->ask("GET", "/view").status, 200);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(post("/operate", {}), 403);
  EXPECT_EQ(calls, 1);
}

TEST_F(ServerSecurity, PreflightsAreNotGranted) {
  start();
  const auto answer =
      server->ask("OPTIONS", "/operate",
                  {"Origin: http://evil.example.com", "Access-Control-Request-Method: POST"});
  EXPECT_EQ(answer.header("access-control-allow-origin"), "");
}

TEST_F(ServerSecurity, PathsHaveTheBasePathOrNot) {
  options.base_path = "/ops/dovetail";
  start();
  EXPECT_EQ(server->ask("GET", "/ops/dovetail/view").status, 200);
  EXPECT_EQ(server->ask("GET", "/view").status, 200);
  EXPECT_EQ(server->ask("GET", "/ops/view").status, 404);
}

TEST_F(ServerSecurity, PartsOfThePathMayContainEveryCharacter) {
  server = std::make_unique<RouteServer>(options);
  server->add(
      {.method = "GET", .pattern = "/topics/{topic}/x", .handler = [](const Request& request) {
         return Response{.body = request.parameter("topic") + "|" +
                                 request.query_value("q").value_or("none")};
       }});
  server->start();
  EXPECT_EQ(server->ask("GET", "/topics/a%2Fb%3Fc%23d/x?q=1%262+3").body, "a/b?c#d|1&2 3");
  EXPECT_EQ(server->ask("GET", "/topics/%3Cscript%3E/x").body, "<script>|none");
  EXPECT_EQ(server->ask("GET", "/topics//x").status, 404);
}

TEST_F(ServerSecurity, WhatHandlersThrowIsAProblem) {
  server = std::make_unique<RouteServer>(options);
  const auto add = [&](const std::string& path, std::function<void()> fail) {
    server->add({.method = "GET", .pattern = path, .handler = [fail](const Request&) {
                   fail();
                   return Response{};
                 }});
  };
  add("/404", [] { throw server::Problem(404, "no such thing"); });
  add("/400", [] { throw std::invalid_argument("bad"); });
  add("/409", [] { throw InvalidOperation("not now"); });
  add("/500", [] { throw std::runtime_error("a secret of the server"); });
  server->start();
  for (const int status : {404, 400, 409, 500}) {
    const auto answer = server->ask("GET", "/" + std::to_string(status));
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.header("content-type"), "application/problem+json");
    EXPECT_EQ(answer.body.find("secret"), std::string::npos);
  }
}

// --- logins

class ServerSessions : public SqliteServerTest {
 protected:
  void serve_users() {
    auto options = test_server_options();
    options.auth = all_roles();
    options.auth.session_lifetime = lifetime;
    options.base_path = base_path;
    options.log_sink = log;
    serve(options);
  }
  HttpAnswer log_in(const std::string& user, const std::string& password, Lines lines = {}) {
    lines.push_back(json_type);
    if (lines.size() == 1) lines.emplace_back("Sec-Fetch-Site: same-origin");
    const nlohmann::json body{{"user", user}, {"password", password}};
    return client().ask("POST", "/api/v1/session", lines, body.dump());
  }
  /// The header that a browser sends after this answer.
  static std::string cookie_of(const HttpAnswer& answer) {
    const auto cookie = answer.header("set-cookie");
    return "Cookie: other=1; " + cookie.substr(0, cookie.find(';'));
  }

  std::chrono::seconds lifetime = std::chrono::hours{1};
  std::string base_path;
  std::shared_ptr<RecordedLines> log = std::make_shared<RecordedLines>();
};

TEST_F(ServerSessions, ALoginGivesASessionUntilTheLogout) {
  serve_users();
  EXPECT_EQ(get("/api/v1/session").status, 401);
  const auto login = log_in("alice", "open sesame");
  ASSERT_EQ(login.status, 204) << login.body;
  const auto cookie = cookie_of(login);
  const auto me = nlohmann::json::parse(get("/api/v1/session", {cookie}).body);
  EXPECT_EQ(me["name"], "alice");
  EXPECT_EQ(me["role"], "operator");
  EXPECT_EQ(client().ask("DELETE", "/api/v1/session", {cookie}).status, 403) << "no browser?";
  EXPECT_EQ(
      client().ask("DELETE", "/api/v1/session", {cookie, "Sec-Fetch-Site: same-origin"}).status,
      204);
  EXPECT_EQ(get("/api/v1/session", {cookie}).status, 401);
}

TEST_F(ServerSessions, CookiesAreForThisSiteOnly) {
  base_path = "/dovetail";
  serve_users();
  const auto cookie = log_in("alice", "open sesame").header("set-cookie");
  for (const auto* part : {"HttpOnly", "SameSite=Strict", "Path=/dovetail", "Max-Age=3600"}) {
    EXPECT_NE(cookie.find(part), std::string::npos) << cookie;
  }
  EXPECT_EQ(cookie.find("Secure"), std::string::npos);
}

TEST_F(ServerSessions, SessionsExpire) {
  lifetime = std::chrono::seconds{1};
  serve_users();
  const auto cookie = cookie_of(log_in("alice", "open sesame"));
  EXPECT_TRUE(eventually([&] { return get("/api/v1/session", {cookie}).status == 401; }));
}

TEST_F(ServerSessions, WrongLoginsAreRefusedAlikeAndSlowedDown) {
  serve_users();
  const auto wrong = log_in("alice", "wrong");
  const auto unknown = log_in("mallory", "open sesame");
  EXPECT_EQ(wrong.status, 401);
  EXPECT_EQ(unknown.status, 401);
  EXPECT_EQ(wrong.body, unknown.body);
  std::multiset<int> answers;
  for (int i = 0; i < 10; ++i) answers.insert(log_in("alice", "wrong").status);
  EXPECT_GE(answers.count(429), 5U);
  EXPECT_EQ(log_in("alice", "wrong", {"Sec-Fetch-Site: cross-site"}).status, 403);
  EXPECT_EQ(client().ask("POST", "/api/v1/session", {json_type}, "[]").status, 400);
}

TEST_F(ServerSessions, SecretsAreInNoAnswer) {
  serve_users();
  for (const auto& answer : {get("/api/v1/session", {bearer("admin-secret")}), get("/health"),
                             log_in("alice", "open sesame!"), get("/nowhere")}) {
    for (const auto* secret : {"secret", "open sesame", "$5$"}) {
      EXPECT_EQ(answer.body.find(secret), std::string::npos) << answer.body;
    }
  }
}

TEST_F(ServerSessions, AReloadRotatesTokensAndUsers) {
  serve_users();
  const auto cookie = cookie_of(log_in("alice", "open sesame"));
  auto options = test_server_options();
  options.auth.tokens = {token_of("n", "new-secret", ServerRole::viewer)};
  options.auth.users = {{"alice", hash_of("open sesame"), ServerRole::viewer}};
  options.allowed_hosts = {"new.example.com"};
  const Lines named{bearer("new-secret"), "Host: new.example.com"};
  EXPECT_EQ(get("/api/v1/session", named).status, 403);
  server->reload(options);
  EXPECT_EQ(get("/api/v1/session", named).status, 200);
  EXPECT_EQ(get("/api/v1/session", {bearer("view-secret")}).status, 401);
  EXPECT_EQ(get("/api/v1/session", {bearer("new-secret")}).status, 200);
  EXPECT_EQ(nlohmann::json::parse(get("/api/v1/session", {cookie}).body)["role"], "viewer");
  options.auth.users = {{"bob", "not a hash", ServerRole::viewer}};
  EXPECT_THROW(server->reload(options), std::invalid_argument);
  EXPECT_EQ(get("/api/v1/session", {cookie}).status, 200) << "a bad reload changes nothing";
  options.auth.users.clear();
  server->reload(options);
  EXPECT_EQ(get("/api/v1/session", {cookie}).status, 401);
}

TEST_F(ServerSessions, ANewPasswordEndsTheSessionsOfTheOldOne) {
  serve_users();
  const auto cookie = cookie_of(log_in("alice", "open sesame"));
  auto options = test_server_options();
  options.auth = all_roles();
  const auto old_users = options.auth.users;
  options.auth.users = {{"alice", hash_of("changed"), ServerRole::operator_}};
  server->reload(options);
  EXPECT_EQ(get("/api/v1/session", {cookie}).status, 401);
  options.auth.users = old_users;
  server->reload(options);
  EXPECT_EQ(get("/api/v1/session", {cookie}).status, 401) << "an ended session stays ended";
}

TEST_F(ServerSessions, ARemovedUserComesBackWithoutSessions) {
  serve_users();
  const auto cookie = cookie_of(log_in("alice", "open sesame"));
  auto options = test_server_options();
  options.auth = all_roles();
  const auto users = std::exchange(options.auth.users, {});
  server->reload(options);
  options.auth.users = users;
  server->reload(options);
  EXPECT_EQ(get("/api/v1/session", {cookie}).status, 401);
}

TEST_F(ServerSessions, AReloadDoesNotTurnAuthenticationOff) {
  serve_users();
  try {
    server->reload(test_server_options());
    FAIL() << "everybody is an admin";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string{error.what()}.find("needs a restart"), std::string::npos);
  }
  EXPECT_EQ(get("/api/v1/session").status, 401);
}

TEST_F(ServerSessions, AReloadMayTurnAuthenticationOn) {
  serve();
  EXPECT_EQ(get("/api/v1/session").status, 200);
  auto options = test_server_options();
  options.auth = all_roles();
  server->reload(options);
  EXPECT_EQ(get("/api/v1/session").status, 401);
}

TEST_F(ServerSessions, AProxyWithoutAuthenticationIsWarnedOf) {
  auto options = test_server_options();
  options.log_sink = log;
  serve(options);
  EXPECT_EQ(log->count("server.no_authentication"), 0);
  options.base_path = "/dovetail";
  options.secure_cookies = true;
  serve(options);
  EXPECT_THAT(log->all(), ::testing::Contains("warn server.no_authentication settings=base_path, "
                                              "secure_cookies"));
  options.auth = all_roles();
  log->clear();
  serve(options);
  EXPECT_EQ(log->count("server.no_authentication"), 0);
}

TEST_F(ServerSessions, OnlyATokenOverridesTheCookie) {
  serve_users();
  const auto cookie = cookie_of(log_in("alice", "open sesame"));
  EXPECT_EQ(get("/api/v1/session", {cookie, "Authorization: Basic YTpi"}).status, 200);
  EXPECT_EQ(get("/api/v1/session", {cookie, bearer("wrong")}).status, 401);
  EXPECT_EQ(get("/api/v1/session", {cookie, "Authorization: Bearer"}).status, 401);
  EXPECT_EQ(get("/api/v1/session", {"Authorization: Basic YTpi"}).status, 401);
}

TEST_F(ServerSessions, APasswordDoesNotEndAtNul) {
  serve_users();
  EXPECT_EQ(log_in("alice", std::string{"open sesame\0x", 13}).status, 401);
  EXPECT_EQ(log_in("alice", "open sesame").status, 204);
}

TEST_F(ServerSessions, FailedLoginsAreLoggedWithoutPasswords) {
  serve_users();
  EXPECT_EQ(log_in("alice", "s3cret-guess").status, 401);
  EXPECT_EQ(log_in("mal\nlory", "s3cret-guess").status, 401);
  EXPECT_EQ(log_in("alice", "open sesame").status, 204);
  EXPECT_EQ(get("/api/v1/session?a=s3cret-query").status, 401);
  EXPECT_THAT(log->all(),
              ::testing::IsSupersetOf(
                  {"warn server.login_failed user=alice peer=127.0.0.1 reason=wrong password "
                   "suppressed=0",
                   "warn server.login_failed user=mal?lory peer=127.0.0.1 reason=unknown user "
                   "suppressed=0",
                   "info server.login user=alice peer=127.0.0.1",
                   "info server.request_refused status=401 method=GET path=/api/v1/session "
                   "peer=127.0.0.1 suppressed=0"}));
  EXPECT_THAT(log->all(), ::testing::Not(::testing::Contains(::testing::HasSubstr("s3cret"))));
  EXPECT_THAT(
      get("/metrics", {bearer("view-secret")}).body,
      ::testing::AllOf(::testing::HasSubstr("dovetail_server_logins_total{result=\"failed\"} 2\n"),
                       ::testing::HasSubstr("dovetail_server_logins_total{result=\"ok\"} 1\n")));
}

TEST_F(ServerSessions, GuessingDoesNotFillTheLog) {
  serve_users();
  for (int i = 0; i < 60; ++i) {
    log_in("user" + std::to_string(i), "wrong");
    get("/api/v1/session");
    get("/api/v1/session");
  }
  EXPECT_LE(log->count("server.login_failed"), 40);  // two minutes at most
  EXPECT_LE(log->count("server.request_refused"), 119);
}

TEST_F(ServerSessions, ARefusedLoginSaysWhenToTryAgain) {
  serve_users();
  HttpAnswer answer;
  for (int i = 0; i < 4; ++i) answer = log_in("alice", "wrong");
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("retry-after"), "1");
  EXPECT_TRUE(eventually([&] { return log_in("alice", "open sesame").status == 204; }))
      << "the right password is accepted after the wait";
}

TEST_F(ServerSessions, GuessingOfOthersDoesNotRefuseALogin) {
  auto options = test_server_options();
  crypt_data data{};
  const std::string slow = ::crypt_r("open sesame", "$5$rounds=100000$saltsalt$", &data);
  options.auth.users = {{"alice", slow, ServerRole::viewer}};
  serve(options);
  std::vector<std::jthread> guesses;
  for (int i = 0; i < 3; ++i)
    guesses.emplace_back([this, i] { log_in("user" + std::to_string(i), "wrong"); });
  EXPECT_EQ(log_in("alice", "open sesame").status, 204);
}

TEST_F(ServerSessions, LoginsThatAreRefusedBecauseTooManyWaitAreCounted) {
  auto options = test_server_options();
  crypt_data data{};
  const std::string slow = ::crypt_r("open sesame", "$5$rounds=300000$saltsalt$", &data);
  options.auth.users = {{"alice", slow, ServerRole::viewer}};
  options.auth.tokens = all_roles().tokens;
  serve(options);
  {
    std::vector<std::jthread> guesses;
    for (int i = 0; i < 8; ++i)
      guesses.emplace_back([this, i] { log_in("user" + std::to_string(i), "wrong"); });
  }
  EXPECT_THAT(get("/metrics", {bearer("view-secret")}).body,
              ::testing::HasSubstr("dovetail_server_logins_total{result=\"busy\"}"));
}

// --- options

TEST_F(ServerSessions, AnAddressForOthersNeedsAuthentication) {
  auto options = test_server_options();
  options.address = "0.0.0.0";
  EXPECT_THROW(Server(platform, options), std::invalid_argument);
  options.auth = all_roles();
  Server server(platform, options);
  server.start();
  EXPECT_EQ(http_get(server.port(), "/health/live").status, 200);
  EXPECT_EQ(http_get(server.port(), "/health").status, 401);
}

TEST_F(ServerSessions, BadSecretsAreRefusedWithoutBeingShown) {
  const auto refusal = [&](const ServerAuth& auth) -> std::string {
    auto options = test_server_options();
    options.auth = auth;
    try {
      Server(platform, options);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const auto& text : {refusal({.tokens = {{"t", "plain-secret", ServerRole::admin}}}),
                           refusal({.users = {{"u", "plain-secret", ServerRole::admin}}}),
                           refusal({.users = {{"", hash_of("x"), ServerRole::admin}}}),
                           refusal({.users = {{"u", hash_of("x")}, {"u", hash_of("y")}}})}) {
    EXPECT_NE(text, "accepted");
    EXPECT_EQ(text.find("plain-secret"), std::string::npos);
  }
}

// --- TLS

TEST_F(ServerSessions, TlsServesHttpsWithSecureCookies) {
  const TemporaryDirectory directory;
  const auto tls = make_certificate(directory.path(), "localhost");
  const auto& certificate = tls.certificate_file;
  auto options = test_server_options();
  options.auth = all_roles();
  options.tls = tls;
  serve(options);
  EXPECT_TRUE(server->url().starts_with("https://"));
  const auto connect = "localhost:" + std::to_string(server->port());
  const auto ask = [&](const std::string& request) {
    return run_command({"openssl", "s_client", "-connect", connect, "-CAfile", certificate,
                        "-verify_return_error", "-quiet"},
                       request)
        .out;
  };
  EXPECT_NE(ask("GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .find("200 OK"),
            std::string::npos);
  const std::string body = R"({"user":"alice","password":"open sesame"})";
  EXPECT_NE(ask("POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                "Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\n"
                "Content-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body)
                .find("; Secure"),
            std::string::npos);
  auto plain = client();
  plain.send("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(plain.is_closed_by_peer());
}

TEST_F(ServerSessions, FilesOfTlsThatCannotBeUsedAreNamed) {
  auto options = test_server_options();
  options.tls.certificate_file = "/nowhere/cert.pem";
  try {
    Server{platform, options};
    FAIL() << "constructed";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("tls_key is not given"));
  }
  options.tls.key_file = "/nowhere/key.pem";
  Server server(platform, options);
  try {
    server.start();
    FAIL() << "started";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("tls_certificate: the file /nowhere/cert.pem"));
  }
}

// --- events

class ServerEvents : public ServerTest {};
DOVETAIL_CONTRACT(ServerEvents);

TEST_P(ServerEvents, AStreamShowsTheCountsOfTheQueues) {
  auto options = test_server_options();
  options.event_interval = std::chrono::milliseconds{100};
  serve(options);
  platform.outbox().enqueue({.topic = "t"});
  auto viewer = client();
  viewer.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto first = viewer.receive_until("\"ready\":1");
  EXPECT_NE(first.find("Content-Type: text/event-stream"), std::string::npos);
  EXPECT_NE(first.find("event: sample\ndata: {"), std::string::npos);
  platform.outbox().enqueue({.topic = "t"});
  EXPECT_NE(viewer.receive_until("\"ready\":2").find("\"ready\":2"), std::string::npos);
  EXPECT_TRUE(server->stop());
  EXPECT_TRUE(viewer.is_closed_by_peer());
}

}  // namespace
}  // namespace dovetail::testing
