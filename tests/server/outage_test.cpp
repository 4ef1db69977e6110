// The server while its database does not answer.
#include <thread>

#include "support/cutting_proxy.hpp"
#include "support/eventually.hpp"
#include "support/server_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;

class ServerOutage : public ::testing::Test {
 protected:
  ServerOutage() : backend(BackendKind::postgres), proxy(backend.url()) {
    auto options = backend.options();
    options.connect_timeout = milliseconds{300};
    options.retry_for = milliseconds{300};
    options.health.cache = milliseconds{0};
    options.health.time_limit = milliseconds{500};
    platform.emplace(Platform::open(proxy.url(), options));
  }
  void serve(const ServerAuth& auth = {}) {
    auto options = test_server_options();
    options.auth = auth;
    server = std::make_unique<Server>(*platform, options);
    server->start();
  }
  HttpAnswer get(const std::string& path) { return http_get(server->port(), path); }

  Backend backend;
  CuttingProxy proxy;
  std::optional<Platform> platform;
  std::unique_ptr<Server> server;
};

TEST_F(ServerOutage, IsLiveAndNotReadyWhileTheDatabaseIsFrozenAndRecovers) {
  serve();
  EXPECT_EQ(get("/health/ready").status, 200);
  proxy.freeze();
  const auto ready = get("/health/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.body.find(R"("name":"database","status":"unhealthy")"), std::string::npos)
      << ready.body;
  EXPECT_EQ(get("/health/live").status, 200);
  EXPECT_EQ(get("/health").status, 503);
  proxy.thaw();
  EXPECT_TRUE(eventually([&] { return get("/health/ready").status == 200; }));
}

TEST_F(ServerOutage, DetailsAreForCallersWhoProveWhoTheyAre) {
  serve({.tokens = {{"t", std::string(64, '0'), ServerRole::viewer}}});
  proxy.freeze();
  const auto ready = nlohmann::json::parse(get("/health/ready").body);
  EXPECT_EQ(ready["status"], "unhealthy");
  for (const auto& check : ready["checks"]) EXPECT_EQ(check["description"], "") << check;
  proxy.thaw();
}

TEST_F(ServerOutage, AStopEndsRequestsThatWaitForTheDatabase) {
  serve();
  proxy.freeze();
  std::thread caller([this] {
    try {
      static_cast<void>(get("/api/v1/leases"));
    } catch (const std::exception&) {  // the server closes the connection
    }
  });
  EXPECT_TRUE(eventually([&] { return proxy.holds_something_back(); }));
  server->stop(milliseconds{100});  // would hang: the statement has no time limit
  caller.join();
  proxy.thaw();
}

}  // namespace
}  // namespace dovetail::testing
