// Streams of the inbox.
#include "support/eventually.hpp"
#include "support/inbox_test.hpp"
#include "support/stream_order.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InboxStreamContract : public InboxTest {};
DOVETAIL_CONTRACT(InboxStreamContract);

TEST_P(InboxStreamContract, MessagesOfAStreamAreHandledInTheOrderOfTheirArrival) {
  auto options = backend.options();
  options.clock = nullptr;
  options.worker = {
      .threads = 4, .poll_interval = milliseconds{20}, .idle_poll_interval = milliseconds{50}};
  auto worker = Platform::open(backend.url(), options);
  StreamOrder order;
  std::atomic<int> handled{0};
  worker.on_inbox("t", [&](const InboxMessage& message, HandlerContext&) {
    const StreamOrder::Call call(order,
                                 Message{.payload = message.payload, .stream = message.stream});
    ++handled;
  });
  // The order of the ids differs from the order of the messages.
  std::vector<InboxRequest> requests;
  for (int i = 1; i <= 30; ++i) {
    for (const auto* stream : {"a", "b"}) {
      requests.push_back({.topic = "t",
                          .source = "s",
                          .message_id = std::to_string(100 - i) + stream,
                          .payload = std::to_string(i),
                          .stream = stream});
    }
  }
  inbox.enqueue_many(requests);
  worker.start();
  EXPECT_TRUE(eventually([&] { return handled == 60; }));
  EXPECT_TRUE(eventually([&] { return inbox.queue().counts().done == 60; }));
  worker.stop();
  EXPECT_THAT(order.out_of_order(30), IsEmpty());
  EXPECT_EQ(order.overlaps(), 0);
  EXPECT_EQ(status_of("99a"), InboxStatus::processed);
}

TEST_P(InboxStreamContract, ADuplicateOfAStreamIsStoredOnce) {
  const InboxRequest request{.topic = "t", .source = "s", .message_id = "1", .stream = "a"};
  EXPECT_TRUE(inbox.enqueue(request).stored());
  EXPECT_FALSE(inbox.enqueue(request).stored());
  EXPECT_THAT(inbox.queue().claim_streams({.owner = owner}), SizeIs(1));
}

}  // namespace
}  // namespace dovetail::testing
