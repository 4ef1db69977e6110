// The connections of a group: a database without work has none.
#include <filesystem>

#include "support/group_test.hpp"

namespace dovetail::testing {
namespace {

class GroupConnectionsContract : public GroupTest {
 protected:
  static constexpr const char* application = "dovetail_idle_group";

  /// The URL with an application name, which marks the connections of the group.
  [[nodiscard]] static std::string named_url(const Backend& backend) {
    if (!backend.is_postgres()) return backend.url();
    const char separator = backend.url().find('?') == std::string::npos ? '?' : '&';
    return backend.url() + separator + "application_name=" + application;
  }

  [[nodiscard]] static std::int64_t open_connections(const Backend& backend) {
    if (backend.is_postgres()) {
      return backend.number("select count(*) from pg_stat_activity where application_name = '" +
                            std::string{application} + "'");
    }
    const auto file = backend.url().substr(std::string{"sqlite:"}.size());
    std::int64_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;
      if (std::filesystem::read_symlink(each.path(), closed) == file) ++count;
    }
    return count;
  }
};
DOVETAIL_CONTRACT(GroupConnectionsContract);

TEST_P(GroupConnectionsContract, ADatabaseWithoutWorkHoldsNoConnectionBetweenTwoLooks) {
  auto given = options();
  given.max_poll_interval = std::chrono::milliseconds{30'000};
  given.max_listeners = 0;  // a listener keeps its own connection
  PlatformGroup group(given);
  group.add("a", named_url(backend), backend.schema());
  group.on("t", calls.handler());
  group.start();
  ASSERT_TRUE(eventually([&] { return status_of(group, "a").state == GroupDatabaseState::idle; }));
  EXPECT_TRUE(eventually([&] { return open_connections(backend) == 0; }));
  // The database does its work, and the group closes its connections again.
  group["a"].outbox().enqueue({.topic = "t"});
  EXPECT_TRUE(calls.reach(1));
  EXPECT_TRUE(eventually([&] {
    return status_of(group, "a").state == GroupDatabaseState::idle &&
           open_connections(backend) == 0;
  }));
}

}  // namespace
}  // namespace dovetail::testing
