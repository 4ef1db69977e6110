// Health while the server is down or frozen: live, not ready, and ready again without a restart.
#include <fstream>

#include "support/backend.hpp"
#include "support/cutting_proxy.hpp"
#include "support/eventually.hpp"
#include "support/health_reports.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class PostgresHealth : public ::testing::Test {
 protected:
  PlatformOptions options() {
    auto options = backend.options();
    options.connect_timeout = 300ms;
    options.retry_for = 300ms;
    options.health.cache = 0ms;
    options.health.time_limit = 100ms;
    return options;
  }
  void start() {
    platform = std::make_unique<Platform>(Platform::open(proxy.url(), options()));
    platform->on("t", [](const Message&, HandlerContext&) {});
    platform->start();
    EXPECT_TRUE(becomes(HealthStatus::healthy));
  }
  /// A loaded machine may need several attempts within the short time limit.
  bool becomes(HealthStatus status) {
    return eventually([&] { return platform->health().ready().status == status; });
  }
  /// The threads of this process.
  static int threads() {
    std::ifstream file("/proc/self/status");
    for (std::string word; file >> word;) {
      int count = 0;
      if (word == "Threads:" && file >> count) return count;
    }
    return 0;
  }

  Backend backend{BackendKind::postgres};
  CuttingProxy proxy{backend.url()};
  std::unique_ptr<Platform> platform;
};

TEST_F(PostgresHealth, AFrozenServerIsNamedAndForgottenWhenItMoves) {
  start();
  proxy.freeze();
  HealthReport report;
  EXPECT_TRUE(eventually([&] {
    report = platform->health().ready();
    return check_named(report, "database").status == HealthStatus::unhealthy;
  }));
  EXPECT_EQ(platform->health().live().status, HealthStatus::healthy);
  const auto before = threads();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(platform->health().ready().status, HealthStatus::unhealthy);
    EXPECT_EQ(platform->health().all().status, HealthStatus::unhealthy);
  }
  EXPECT_LE(threads(), before + 10) << "the checks that hang are not started again";
  proxy.thaw();
  EXPECT_TRUE(becomes(HealthStatus::healthy)) << in_words(platform->health().ready());
}

TEST_F(PostgresHealth, AServerThatAnswersNoMoreHasATimeLimit) {
  start();
  proxy.freeze();
  EXPECT_TRUE(eventually([&] {
    const auto check = check_named(platform->health().all(), "database");
    return check.description.find("no answer within 100 ms") != std::string::npos;
  }));
}

}  // namespace
}  // namespace dovetail::testing
