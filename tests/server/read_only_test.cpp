// A Platform that is open for reading only, as `dovetail server --read-only` opens it.
#include "support/server_test.hpp"

namespace dovetail::testing {
namespace {

class ReadOnlyPlatform : public BackendTest {
 protected:
  ReadOnlyPlatform() : writable(backend.open()) {}
  [[nodiscard]] Platform open_read_only() const {
    auto options = backend.options();
    options.read_only = true;
    return Platform::open(backend.url(), options);
  }
  Platform writable;
};
DOVETAIL_CONTRACT(ReadOnlyPlatform);

TEST_P(ReadOnlyPlatform, ReadsAndRefusesEveryWrite) {
  writable.outbox().enqueue({.topic = "t"});
  auto platform = open_read_only();
  EXPECT_EQ(platform.outbox().counts().ready, 1);
  EXPECT_THROW(platform.outbox().enqueue({.topic = "t"}), InvalidOperation);
  EXPECT_THROW((void)platform.begin(), InvalidOperation);
  EXPECT_THROW((void)platform.outbox().claim({.owner = OwnerToken::generate()}), InvalidOperation);
  EXPECT_THROW(platform.start(), InvalidOperation);
  EXPECT_EQ(writable.outbox().counts().ready, 1);
}

TEST_P(ReadOnlyPlatform, ServesHealthAndEvents) {
  auto platform = open_read_only();
  auto options = test_server_options();
  options.read_only = true;
  Server server(platform, options);
  server.start();
  EXPECT_EQ(http_get(server.port(), "/health").status, 200);
  EXPECT_NE(http_get(server.port(), "/api/v1/session").body.find(R"("read_only":true)"),
            std::string::npos);
  HttpClient viewer(server.port());
  viewer.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(viewer.receive_until("event: sample").find("event: sample"), std::string::npos);
}

}  // namespace
}  // namespace dovetail::testing
