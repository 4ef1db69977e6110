// Streams and handlers.
#include <atomic>
#include <set>
#include <thread>

#include "support/eventually.hpp"
#include "support/outbox_test.hpp"
#include "support/stream_order.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StreamHandlerContract : public OutboxTest {
 protected:
  [[nodiscard]] PlatformOptions worker_options() const {
    auto options = backend.options();
    options.clock = nullptr;  // real time
    options.worker = {.threads = 6,
                      .batch_size = 20,
                      .poll_interval = milliseconds{20},
                      .idle_poll_interval = milliseconds{50}};
    return options;
  }
  Platform open_worker() { return Platform::open(backend.url(), worker_options()); }
  /// Enqueues messages 1 to `last` of each stream, alternating between the streams.
  void put_all(int streams, int last, const std::string& topic = "t") {
    std::vector<EnqueueRequest> requests;
    for (int i = 1; i <= last; ++i) {
      for (int s = 0; s < streams; ++s) {
        requests.push_back(
            {.topic = topic, .payload = std::to_string(i), .stream = "s" + std::to_string(s)});
      }
    }
    outbox.enqueue_many(requests);
  }
  bool all_done(std::int64_t count) {
    return eventually([&] { return with_status(MessageStatus::done) == count; });
  }
  void handle_in_order(Platform& worker, const std::string& topic = "t") {
    worker.on(topic, [this](const Message& message, HandlerContext&) {
      const StreamOrder::Call call(order, message);
    });
  }

  StreamOrder order;
};
DOVETAIL_CONTRACT(StreamHandlerContract);

TEST_P(StreamHandlerContract, EachStreamIsHandledInOrderAndNeverTwoMessagesAtOnce) {
  put_all(20, 50);
  auto worker = open_worker();
  handle_in_order(worker);
  worker.start();
  EXPECT_TRUE(all_done(1000));
  worker.stop();
  EXPECT_EQ(order.overlaps(), 0);
  EXPECT_THAT(order.out_of_order(50), IsEmpty());
}

TEST_P(StreamHandlerContract, ThreeWorkersKeepTheOrderWhileMessagesArrive) {
  std::vector<Platform> workers;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(open_worker());
    handle_in_order(workers.back());
    workers.back().start();
  }
  for (int i = 1; i <= 40; ++i) {
    for (int s = 0; s < 10; ++s) {
      outbox.enqueue({.topic = "t", .payload = std::to_string(i), .stream = std::to_string(s)});
    }
  }
  EXPECT_TRUE(all_done(400));
  for (auto& worker : workers) worker.stop();
  EXPECT_EQ(order.overlaps(), 0);
  EXPECT_THAT(order.out_of_order(40), IsEmpty());
}

TEST_P(StreamHandlerContract, AMessageThatFailsTwiceIsRetriedBeforeItsSuccessors) {
  put_all(3, 5);
  auto worker = open_worker();
  std::atomic<int> failures{0};
  worker.on("t",
            [&](const Message& message, HandlerContext&) {
              const StreamOrder::Call call(order, message);
              if (message.stream == "s1" && message.payload == "3" && failures.fetch_add(1) < 2) {
                throw std::runtime_error("not yet");
              }
            },
            {.backoff = [](int) { return milliseconds{1}; }});
  worker.start();
  EXPECT_TRUE(all_done(15));
  worker.stop();
  EXPECT_THAT(order.of("s1"), ElementsAre(1, 2, 3, 3, 3, 4, 5));
  EXPECT_THAT(order.of("s2"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(order.overlaps(), 0);
}

TEST_P(StreamHandlerContract, AFailedMessageBlocksItsStreamAndNoOther) {
  put_all(2, 3);
  auto worker = open_worker();
  worker.on("t", [&](const Message& message, HandlerContext&) {
    const StreamOrder::Call call(order, message);
    if (message.stream == "s0" && message.payload == "2") throw PermanentFailure("broken");
  });
  worker.start();
  EXPECT_TRUE(all_done(4));
  EXPECT_TRUE(eventually([&] { return outbox.find_stream("s0")->state == StreamState::blocked; }));
  EXPECT_THAT(order.of("s0"), ElementsAre(1, 2));
  EXPECT_THAT(order.of("s1"), ElementsAre(1, 2, 3));
  outbox.skip_stream("s0");
  EXPECT_TRUE(all_done(5));
  EXPECT_THAT(order.of("s0"), ElementsAre(1, 2, 3));
}

TEST_P(StreamHandlerContract, TheHandlersPolicyParksAFailedMessage) {
  put_all(1, 3);
  auto worker = open_worker();
  worker.on("t",
            [&](const Message& message, HandlerContext&) {
              const StreamOrder::Call call(order, message);
              if (message.payload == "2") throw std::runtime_error("broken");
            },
            {.max_attempts = 1, .on_stream_failure = StreamFailure::park});
  worker.start();
  EXPECT_TRUE(all_done(2));
  EXPECT_THAT(order.of("s0"), ElementsAre(1, 2, 3));
  EXPECT_EQ(with_status(MessageStatus::failed), 1);
}

TEST_P(StreamHandlerContract, AHandlerThatEnqueuesIntoItsOwnStreamIsFollowedByThatMessage) {
  auto worker = open_worker();
  worker.on("t", [&](const Message& message, HandlerContext& context) {
    const StreamOrder::Call call(order, message);
    const int number = std::stoi(message.payload);
    if (number == 10) return;
    const EnqueueRequest next{
        .topic = "t", .payload = std::to_string(number + 1), .stream = message.stream};
    if (number % 2 == 0) {
      worker.outbox().enqueue(context.transaction(), next);
    } else {
      worker.outbox().enqueue(next);
    }
  });
  worker.start();
  outbox.enqueue({.topic = "t", .payload = "1", .stream = "s0"});
  EXPECT_TRUE(all_done(10));
  worker.stop();
  EXPECT_THAT(order.of("s0"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(order.overlaps(), 0);
}

TEST_P(StreamHandlerContract, TwoServicesWithDifferentTopicsTakeTurnsInOneStream) {
  for (int i = 1; i <= 12; ++i) {
    outbox.enqueue({.topic = i % 3 == 0 ? "b" : "a", .payload = std::to_string(i), .stream = "s"});
  }
  auto one = open_worker();
  auto two = open_worker();
  handle_in_order(one, "a");
  handle_in_order(two, "b");
  one.start();
  two.start();
  EXPECT_TRUE(all_done(12));
  EXPECT_THAT(order.out_of_order(12), IsEmpty());
  EXPECT_EQ(order.overlaps(), 0);
}

TEST_P(StreamHandlerContract, TransactionsOfHandlersCommitInOrder) {
  backend.sql("create table effect (stream text not null, number integer not null)");
  put_all(4, 25);
  auto worker = open_worker();
  worker.on("t", [&](const Message& message, HandlerContext& context) {
    const StreamOrder::Call call(order, message);
    // Every other message is acked with the next round trip.
    if (std::stoi(message.payload) % 2 == 0) return;
    context.transaction().execute("insert into effect values ($1, $2)", *message.stream,
                                  std::stoi(message.payload));
  });
  worker.start();
  EXPECT_TRUE(all_done(100));
  worker.stop();
  EXPECT_THAT(order.out_of_order(25), IsEmpty());
  EXPECT_EQ(backend.number("select count(*) from effect"), 52);
  backend.sql("drop table effect");
}

TEST_P(StreamHandlerContract, ASnoozedMessageKeepsItsPlace) {
  put_all(1, 3);
  auto worker = open_worker();
  std::atomic<int> snoozes{0};
  worker.on("t", [&](const Message& message, HandlerContext& context) {
    const StreamOrder::Call call(order, message);
    if (message.payload == "2" && snoozes.fetch_add(1) < 2) context.snooze(milliseconds{1});
  });
  worker.start();
  EXPECT_TRUE(all_done(3));
  EXPECT_THAT(order.of("s0"), ElementsAre(1, 2, 2, 2, 3));
}

TEST_P(StreamHandlerContract, AStoppedWorkerGivesItsStreamsToTheNext) {
  put_all(5, 20);
  auto first = open_worker();
  std::atomic<int> handled{0};
  first.on("t", [&](const Message& message, HandlerContext&) {
    const StreamOrder::Call call(order, message);
    ++handled;
    std::this_thread::sleep_for(milliseconds{5});
  });
  first.start();
  EXPECT_TRUE(eventually([&] { return handled >= 10; }));
  first.stop();
  auto second = open_worker();
  handle_in_order(second);
  second.start();
  EXPECT_TRUE(all_done(100));
  second.stop();
  EXPECT_EQ(order.overlaps(), 0);
  EXPECT_THAT(order.out_of_order(20), IsEmpty());
}

TEST_P(StreamHandlerContract, OneHotStreamDoesNotKeepOthersWaiting) {
  std::vector<EnqueueRequest> requests;
  for (int i = 1; i <= 300; ++i) {
    requests.push_back({.topic = "t", .payload = std::to_string(i), .stream = "hot"});
  }
  outbox.enqueue_many(requests);
  auto worker = open_worker();
  std::atomic<bool> release{false};
  worker.on("t", [&](const Message& message, HandlerContext& context) {
    const StreamOrder::Call call(order, message);
    while (message.stream == "hot" && !release && !context.stop_token().stop_requested()) {
      std::this_thread::sleep_for(milliseconds{1});
    }
  });
  worker.start();
  EXPECT_TRUE(eventually([&] { return order.of("hot").size() == 1; }));
  put_all(10, 3);
  EXPECT_TRUE(all_done(30));
  EXPECT_EQ(order.of("hot").size(), 1U);
  release = true;
  EXPECT_TRUE(all_done(330));
  EXPECT_EQ(order.overlaps(), 0);
}

TEST_P(StreamHandlerContract, AConcurrencyLimitHoldsForMessagesOfStreams) {
  put_all(8, 5);
  auto worker = open_worker();
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  worker.on("t",
            [&](const Message& message, HandlerContext&) {
              const StreamOrder::Call call(order, message);
              const int now = ++running;
              int seen = most;
              while (now > seen && !most.compare_exchange_weak(seen, now)) {
              }
              --running;
            },
            {.concurrency = 1});
  worker.start();
  EXPECT_TRUE(all_done(40));
  EXPECT_EQ(most, 1);
  EXPECT_THAT(order.out_of_order(5), IsEmpty());
}

TEST_P(StreamHandlerContract, AWorkerIsIdleAgainAfterAStreamWasHandled) {
  put_all(1, 3);
  auto options = worker_options();
  options.worker.poll_interval = milliseconds{20};
  options.worker.idle_poll_interval = seconds{5};
  auto worker = Platform::open(backend.url(), options);
  handle_in_order(worker);
  worker.start();
  EXPECT_TRUE(all_done(3));
  const auto trips = [&] {
    std::uint64_t count = 0;
    for (const auto& timing : worker.metrics().timings) {
      if (timing.name == "dovetail_round_trip_seconds") count += timing.count;
    }
    return count;
  };
  // While idle, the polls become rarer, and a few of them are as good as none.
  std::uint64_t before = 0;
  EXPECT_TRUE(eventually([&] {
    before = trips();
    std::this_thread::sleep_for(seconds{1});
    return trips() - before <= 3;
  }));
  outbox.enqueue({.topic = "t", .payload = "4", .stream = "s0"});
  EXPECT_TRUE(all_done(4)) << "a stream that is used again is found";
  EXPECT_THAT(order.of("s0"), ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace dovetail::testing
