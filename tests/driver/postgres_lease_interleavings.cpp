// A renewal and an acquire at the moment when a lease expires: at most one of them succeeds.
#include <future>

#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

TEST(PostgresLeaseInterleavings, AnAcquireWaitsForARenewalThatIsNotCommitted) {
  Backend backend(BackendKind::postgres);
  auto platform = backend.open();
  auto& leases = platform.leases();
  const auto lease = leases.try_acquire("job", "a", std::chrono::seconds{30});
  ASSERT_TRUE(lease);
  UserConnection renewing(backend);
  renewing.execute("begin");
  renewing.execute("select " + backend.schema() + ".lease_renew('job', 'a', " +
                   std::to_string(lease->token) + ", '1 hour')");
  backend.advance(std::chrono::seconds{31});  // without the renewal, it has expired
  auto other = std::async(std::launch::async,
                          [&] { return leases.try_acquire("job", "b", std::chrono::seconds{30}); });
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds{300}), std::future_status::timeout);
  renewing.execute("commit");
  EXPECT_FALSE(other.get()) << "it was renewed in time";
  EXPECT_EQ(leases.find("job")->owner, "a");
}

TEST(PostgresLeaseInterleavings, ARenewalThatHadToWaitLooksAtTheTimeAfterwards) {
  Backend backend(BackendKind::postgres);
  auto platform = backend.open();
  auto& leases = platform.leases();
  const auto lease = leases.try_acquire("job", "a", std::chrono::seconds{30});
  ASSERT_TRUE(lease);
  UserConnection holding(backend);
  holding.execute("begin");
  holding.execute("select from " + backend.table("lease") + " for update");
  auto renewed = std::async(std::launch::async,
                            [&] { return leases.renew(*lease, std::chrono::seconds{30}); });
  EXPECT_EQ(renewed.wait_for(std::chrono::milliseconds{200}), std::future_status::timeout);
  backend.advance(std::chrono::seconds{31});
  holding.execute("rollback");
  EXPECT_FALSE(renewed.get()) << "it had ended before the row was free";
}

}  // namespace
}  // namespace dovetail::testing
