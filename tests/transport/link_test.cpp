// How connections to brokers are made, without a broker.
#include <future>
#include <latch>

#include "transport/broker_url.hpp"
#include "transport/link.hpp"
#include "transport/support/calls.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::BrokerUrl;

struct FakeConnection {
  bool open = true;
  [[nodiscard]] bool is_open() const { return open; }
};
using FakeLink = transport::Link<FakeConnection>;

TEST(Link, AnOpenConnectionIsUsedAgainAndALostOneIsReplaced) {
  std::atomic<int> made = 0;
  FakeLink link(
      [&] {
        ++made;
        return std::make_shared<FakeConnection>();
      },
      seconds{1});
  const auto first = link.open(patient_call());
  EXPECT_EQ(link.open(patient_call()), first);
  first->open = false;
  EXPECT_NE(link.open(patient_call()), first);
  EXPECT_EQ(made, 2);
}

TEST(Link, AttemptsAfterFailuresAreSpacedAndEveryCallEndsAtItsDeadline) {
  std::atomic<int> attempts = 0;
  FakeLink link(
      [&]() -> std::shared_ptr<FakeConnection> {
        ++attempts;
        throw std::runtime_error("the broker is down");
      },
      seconds{1});
  const auto end = MonoTime::clock::now() + milliseconds{300};
  while (MonoTime::clock::now() < end) {
    try {
      (void)link.open(call_for(milliseconds{1}));
      ADD_FAILURE();
    } catch (const std::runtime_error&) {
    }
  }
  // Without the pauses there would be thousands. With full jitter, the sum of 100 of them is far
  // above 300 ms.
  EXPECT_LT(attempts, 100);
  EXPECT_GE(attempts, 1);
}

TEST(Link, AnAttemptThatHangsIsLeftAloneAndAnotherOneIsMade) {
  struct Shared {
    std::latch released{1};
    std::atomic<int> attempts = 0;
  };
  const auto shared = std::make_shared<Shared>();
  FakeLink link(
      [shared] {
        if (++shared->attempts == 1) shared->released.wait();
        return std::make_shared<FakeConnection>();
      },
      milliseconds{50});
  EXPECT_THROW((void)link.open(call_for(milliseconds{100})), std::runtime_error);
  EXPECT_NE(link.open(patient_call()), nullptr);
  EXPECT_EQ(shared->attempts, 2);
  shared->released.count_down();
}

TEST(Link, AStopEndsTheWaitForAConnection) {
  const auto release = std::make_shared<std::latch>(1);
  FakeLink link(
      [release] {
        release->wait();
        return std::make_shared<FakeConnection>();
      },
      seconds{5});
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_THROW((void)link.open(call_for(std::chrono::hours{1}, stop.get_token())),
               std::runtime_error);
  release->count_down();
}

TEST(BrokerUrl, TheAddressHasNoSecrets) {
  const auto url = BrokerUrl::parse("amqp://us%40er:pa%3Ass@host.example:99/a%2Fb");
  EXPECT_EQ(url.user, "us@er");
  EXPECT_EQ(url.password, "pa:ss");
  EXPECT_EQ(url.host, "host.example");
  EXPECT_EQ(url.port, 99);
  EXPECT_EQ(url.path, "a/b");
  EXPECT_EQ(url.address(1), "amqp://host.example:99");
  EXPECT_EQ(BrokerUrl::parse("nats://[::1]").address(4222), "nats://[::1]:4222");
}

TEST(BrokerUrl, AWrongUrlIsRefusedWithoutItsSecrets) {
  for (const auto* text : {"", "host", "://host", "nats://", "nats://user:s3cret@", "nats://h:0",
                           "nats://user:s3cret@host:port", "nats://[::1"}) {
    try {
      (void)BrokerUrl::parse(text);
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), ::testing::Not(::testing::HasSubstr("s3cret")));
    }
  }
}

}  // namespace
}  // namespace dovetail::testing
