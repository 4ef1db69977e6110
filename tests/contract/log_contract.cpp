// What is logged, and what never is, on both engines.
#include <mutex>

#include "support/backend.hpp"

namespace dovetail::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Every record as one line.
class RecordingSink final : public LogSink {
 public:
  [[nodiscard]] bool enabled(LogLevel) const override { return true; }
  void write(const LogRecord& record) override {
    std::string line = std::string{to_string(record.level)} + " " + std::string{record.event};
    for (const auto& field : record.fields) {
      line += " " + std::string{field.name} + "=";
      std::visit(
          [&](const auto& value) {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
              line += value;
            } else {
              line += std::to_string(value);
            }
          },
          field.value);
    }
    std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> lines() {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class LogContract : public BackendTest {
 protected:
  LogContract() {
    auto options = backend.options();
    options.log_sink = sink;
    platform.emplace(Platform::open(backend.url(), options));
  }
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::optional<Platform> platform;
};
DOVETAIL_CONTRACT(LogContract);

TEST_P(LogContract, OBX_102_OBX_103_EnqueuesAndClaimsAreLoggedWithTheirStore) {
  auto& outbox = platform->outbox();
  const auto id = outbox.enqueue({.topic = "order.created", .correlation_id = "c-77"});
  (void)outbox.claim({.owner = OwnerToken::generate()});
  const auto store = "store=" + platform->name();
  EXPECT_THAT(sink->lines(), Contains("info outbox.enqueued " + store + " topic=order.created message_id=" +
                                      id.to_string() + " correlation_id=c-77"));
  EXPECT_THAT(sink->lines(),
              Contains(::testing::AllOf(HasSubstr("debug outbox.claimed " + store), HasSubstr("count=1"))));
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
  EXPECT_FALSE(sink->lines().empty());
  for (const auto& line : sink->lines()) EXPECT_THAT(line, Not(HasSubstr(secret)));
}

}  // namespace
}  // namespace dovetail::testing
