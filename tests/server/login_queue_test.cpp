// Logins wait for their turn, and an address cannot take all places.
#include "server/login_queue.hpp"

#include <atomic>

#include "server/client_network.hpp"
#include "server/log_limit.hpp"
#include "support/eventually.hpp"
#include "support/route_server.hpp"

namespace dovetail::testing {
namespace {

using server::LoginQueue;

TEST(LoginQueueTest, AnAddressCannotTakeAllPlaces) {
  Gate gate;
  std::atomic<int> ended = 0;
  LoginQueue queue;
  const auto login = [&](bool) {
    gate.wait();
    ++ended;
  };
  int accepted = 0;
  for (std::size_t i = 0; i < 2 * LoginQueue::max_of_peer; ++i)
    accepted += queue.try_run("192.0.2.1", login) ? 1 : 0;
  EXPECT_EQ(accepted, static_cast<int>(LoginQueue::max_of_peer));
  EXPECT_TRUE(queue.try_run("192.0.2.2", login)) << "others still get in";
  gate.open();
  EXPECT_TRUE(eventually([&] { return ended == accepted + 1; }));
  EXPECT_TRUE(eventually([&] { return queue.try_run("192.0.2.1", login); }));
}

TEST(LoginQueueTest, ItsPlacesAreLimited) {
  Gate gate;
  LoginQueue queue;
  std::size_t accepted = 0;
  for (int i = 0; i < 100; ++i)
    accepted += queue.try_run(std::to_string(i), [&](bool) { gate.wait(); }) ? 1 : 0;
  EXPECT_LE(accepted, LoginQueue::max_waiting + 1);
  EXPECT_GE(accepted, LoginQueue::max_waiting);
  gate.open();
}

TEST(LoginQueueTest, ALoginThatHasWaitedTooLongIsTold) {
  std::atomic<int> late = 0;
  LoginQueue queue(std::chrono::milliseconds{0});
  EXPECT_TRUE(queue.try_run("192.0.2.1", [&](bool in_time) { late = in_time ? 0 : 1; }));
  EXPECT_TRUE(eventually([&] { return late == 1; }));
}

TEST(ClientNetworkTest, AnIpv6NetworkIsOneClient) {
  using server::client_network;
  EXPECT_EQ(client_network("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client_network("::ffff:192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client_network("2001:db8:1:2:3::4"), "2001:db8:1:2::/64");
  EXPECT_EQ(client_network("2001:db8:1:2:aaaa:bbbb:cccc:dddd"), "2001:db8:1:2::/64");
  EXPECT_NE(client_network("2001:db8:1:3::4"), "2001:db8:1:2::/64");
  EXPECT_EQ(client_network("fe80::1%eth0"), "fe80::/64");
  EXPECT_EQ(client_network("a text"), "a text");
}

TEST(LogLimitTest, CountsWhatItLeavesOut) {
  server::LogLimit limit(2);
  const auto now = server::LogLimit::Steady::now();
  EXPECT_EQ(limit.admit(now), 0U);
  EXPECT_EQ(limit.admit(now), 0U);
  EXPECT_EQ(limit.admit(now), std::nullopt);
  EXPECT_EQ(limit.admit(now), std::nullopt);
  EXPECT_EQ(limit.admit(now + std::chrono::minutes{2}), 2U);
}

TEST(LogLimitTest, TextOfClientsIsOnOneLine) {
  EXPECT_EQ(server::loggable("a\nb\x1b[2J\x7f", 100), "a?b?[2J?");
  EXPECT_EQ(server::loggable("\xc2\x9b"
                             "31m\xff\xc3\xa9",
                             100),
            "?31m?\xc3\xa9");
  EXPECT_EQ(server::loggable("abcdef", 3), "abc");
}

}  // namespace
}  // namespace dovetail::testing
