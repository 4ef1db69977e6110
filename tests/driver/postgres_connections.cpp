// The number of connections of a started Platform.
#include <atomic>

#include "runtime/connections.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

class PostgresConnections : public ::testing::Test {
 protected:
  std::int64_t open_connections() {
    return backend.number("select count(*) from pg_stat_activity where application_name = '" +
                          backend.schema() + "'");
  }
  Backend backend{BackendKind::postgres};
};

TEST_F(PostgresConnections, AStartedPlatformHoldsNoMoreThanDocumented) {
  auto options = backend.options();
  options.worker.fetchers = 2;
  auto platform = Platform::open(backend.url() + "?application_name=" + backend.schema(), options);
  std::atomic<int> handled{0};
  const auto handle = [&](const auto&, HandlerContext& context) {
    context.transaction().execute("select 1");
    ++handled;
  };
  platform.on("t", handle);
  platform.on("job", handle);
  platform.on_inbox("t", handle);
  platform.jobs().create_or_update({.name = "job", .topic = "job", .cron = "0 0 1 1 *"});
  platform.start();
  constexpr int messages = 200;
  for (int i = 0; i < messages; ++i) {
    platform.outbox().enqueue({.topic = "t"});
    platform.inbox().enqueue({.topic = "t", .source = "s", .message_id = std::to_string(i)});
    if (i % 50 == 0) platform.jobs().trigger("job");
  }
  std::int64_t most = 0;
  EXPECT_TRUE(eventually([&] {
    most = std::max(most, open_connections());
    return handled >= 2 * messages;
  }));
  const auto documented = options.max_connections +
                          runtime::service_connections(options.worker.fetchers) +
                          runtime::listener_connections;
  EXPECT_LE(most, static_cast<std::int64_t>(documented));
  EXPECT_GT(most, 6) << "nothing was going on: the test proves nothing";
  platform.stop();
}

TEST_F(PostgresConnections, DatabasesShareTheConnectionsOfABudget) {
  const storage::DatabaseOptions options{
      .connect_timeout = std::chrono::milliseconds{1'000},
      .retry_for = std::chrono::milliseconds{0},
      .budget = std::make_shared<storage::ConnectionBudget>(3, 1)};
  const auto first = backend.open_database(options);
  const auto second = backend.open_database(options);
  const auto third = backend.open_database(options);
  const auto look = [](storage::ReadSession& session) { (void)session.query("select 1", {}); };
  first->read(look);
  first->read(look, {.service = true});
  second->read(look);
  third->read(look);  // closes an idle connection of another database
  const auto held = first->begin();
  const auto also_held = second->begin();
  EXPECT_NO_THROW(third->read(look, {.service = true}));
  try {
    third->read(look);
    FAIL() << "there are no more than three connections";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::transient);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("all 3 connections of the group are in use"));
  }
  // A service may use a reserved connection as the first connection of a database, too.
  EXPECT_NO_THROW(backend.open_database(options)->read(look, {.service = true}));
}

}  // namespace
}  // namespace dovetail::testing
