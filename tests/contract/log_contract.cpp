// The contents of log lines, and secrets that they never contain, on both engines.
#include "support/backend.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class LogContract : public BackendTest {
 protected:
  LogContract() {
    auto options = backend.options();
    options.log_sink = sink;
    platform.emplace(Platform::open(backend.url(), options));
  }
  std::shared_ptr<RecordedLines> sink = std::make_shared<RecordedLines>();
  std::optional<Platform> platform;
};
DOVETAIL_CONTRACT(LogContract);

TEST_P(LogContract, OBX_102_OBX_103_EnqueuesAndClaimsAreLoggedWithTheirStore) {
  auto& outbox = platform->outbox();
  const auto id = outbox.enqueue({.topic = "order.created", .correlation_id = "c-77"});
  (void)outbox.claim({.owner = OwnerToken::generate()});
  const auto store = "store=" + platform->name();
  EXPECT_THAT(sink->all(), Contains("info outbox.enqueued " + store +
                                    " topic=order.created message_id=" + id.to_string() +
                                    " correlation_id=c-77"));
  EXPECT_THAT(sink->all(), Contains(::testing::AllOf(HasSubstr("debug outbox.claimed " + store),
                                                     HasSubstr("count=1"))));
}

TEST_P(LogContract, OBX_125_PayloadsNeverReachALogLineOrAnError) {
  auto& outbox = platform->outbox();
  const std::string secret = "swordfish";
  const auto owner = OwnerToken::generate();
  outbox.enqueue({.topic = "t", .payload = secret});
  outbox.enqueue_many(std::vector<EnqueueRequest>(3, {.topic = "t", .payload = secret}));
  auto transaction = platform->begin();
  outbox.enqueue(transaction, {.topic = "t", .payload = secret});
  transaction.commit();
  for (const auto& each : outbox.claim({.owner = owner})) outbox.ack(owner, {{each.claim}});
  try {
    outbox.enqueue({.topic = "t", .payload = secret + "\xFF"});
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr(secret)));
  }
  backend.sql("drop table " + backend.table("outbox") + (backend.is_postgres() ? " cascade" : ""));
  try {
    outbox.enqueue({.topic = "t", .payload = secret});
    FAIL() << "stored without a table";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr(secret)));
    EXPECT_THAT(error.statement(), StartsWith("outbox_enqueue"));
  }
  EXPECT_FALSE(sink->all().empty());
  for (const auto& line : sink->all()) EXPECT_THAT(line, Not(HasSubstr(secret)));
}

}  // namespace
}  // namespace dovetail::testing
