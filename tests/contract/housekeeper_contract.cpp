// The housekeeper does every chore, whatever happens to the others.
#include "runtime/housekeeper.hpp"

#include <gmock/gmock.h>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;

class HousekeeperContract : public BackendTest {};
DOVETAIL_CONTRACT(HousekeeperContract);

TEST_P(HousekeeperContract, AChoreThatFailsIsReportedAndKeepsNoOtherFromBeingDone) {
  const auto database = backend.open_database();
  auto log = std::make_shared<RecordedLines>();
  std::atomic<bool> fails{true};
  std::atomic<int> others{0};
  runtime::Housekeeper housekeeper(*database,
                                   {{"broken",
                                     [&](const std::stop_token&) {
                                       if (fails) throw std::runtime_error("no room");
                                     }},
                                    {"other", [&](const std::stop_token&) { ++others; }}},
                                   std::chrono::milliseconds{1}, Logger{log}, Metrics{});
  EXPECT_FALSE(housekeeper.health().running);
  housekeeper.start();
  EXPECT_TRUE(eventually([&] { return others >= 2; }));
  EXPECT_TRUE(eventually([&] { return housekeeper.health().failures >= 2; }));
  EXPECT_EQ(housekeeper.health().last_error, "no room");
  EXPECT_GE(log->count("platform.chore_failed"), 2);
  fails = false;
  EXPECT_TRUE(eventually([&] { return housekeeper.health().failures == 0; }));
  EXPECT_TRUE(housekeeper.stop(MonoTime{}));
  EXPECT_FALSE(housekeeper.health().running);
}

}  // namespace
}  // namespace dovetail::testing
