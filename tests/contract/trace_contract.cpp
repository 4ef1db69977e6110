// Traces of messages, on both engines.
#include <algorithm>

#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using ::testing::SizeIs;

class RecordedSpans final : public TraceSink {
 public:
  void end(const Span& span) override {
    const std::lock_guard lock(mutex_);
    spans_.push_back(span);
  }
  [[nodiscard]] std::vector<Span> of(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    std::vector<Span> found;
    std::ranges::copy_if(spans_, std::back_inserter(found),
                         [&](const Span& span) { return span.name == name; });
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

std::string traceparent_of(const Message& message) {
  const auto found = message.headers.find(traceparent_header);
  return found == message.headers.end() ? "" : found->second;
}

class TraceContract : public BackendTest {
 protected:
  [[nodiscard]] Platform open(bool with_sink) const {
    auto options = backend.options();
    if (with_sink) options.trace_sink = spans;
    return Platform::open(backend.url(), options);
  }
  /// The handler of a topic that records the traceparent of its messages.
  void record(Platform& platform, const std::string& topic) {
    platform.on(topic, [this](const Message& message, HandlerContext&) {
      const std::lock_guard lock(mutex);
      seen.emplace(message.topic, traceparent_of(message));
    });
  }
  [[nodiscard]] std::map<std::string, std::string> seen_all(std::size_t count) {
    EXPECT_TRUE(eventually([&] {
      backend.advance(std::chrono::milliseconds{5});
      const std::lock_guard lock(mutex);
      return seen.size() >= count;
    }));
    const std::lock_guard lock(mutex);
    return seen;
  }

  const TraceContext context = TraceContext::begin();
  std::shared_ptr<RecordedSpans> spans = std::make_shared<RecordedSpans>();
  std::mutex mutex;
  std::map<std::string, std::string> seen;  // by topic
};
DOVETAIL_CONTRACT(TraceContract);

TEST_P(TraceContract, AMessageWithoutAContextHasNoHeader) {
  auto platform = open(false);
  const auto id = platform.outbox().enqueue({.topic = "a"});
  EXPECT_THAT(platform.outbox().find(id)->message.headers, SizeIs(0));
}

TEST_P(TraceContract, AScopePropagatesItsContextWithoutASink) {
  auto platform = open(false);
  const TraceScope scope(context);
  const auto id = platform.outbox().enqueue({.topic = "a", .headers = {{"k", "v"}}});
  const auto stored = platform.outbox().find(id)->message;
  EXPECT_EQ(traceparent_of(stored), context.to_string());
  EXPECT_EQ(stored.headers.at("k"), "v");
  const auto own = TraceContext::begin().to_string();
  const auto other = platform.outbox().enqueue({.topic = "a", .headers = {{"traceparent", own}}});
  EXPECT_EQ(traceparent_of(platform.outbox().find(other)->message), own);
}

TEST_P(TraceContract, EverythingThatAHandlerEnqueuesCarriesItsContext) {
  auto platform = open(false);
  platform.on("first", [&](const Message&, HandlerContext& handler) {
    auto& transaction = handler.transaction();
    platform.outbox().enqueue(transaction, {.topic = "next"});
    platform.timers().schedule(transaction,
                               {.topic = "timer", .delay = std::chrono::milliseconds{1}});
    platform.inbox().enqueue(transaction, {.topic = "arrival", .source = "s", .message_id = "1"});
    platform.joins().fan_out(transaction, {.steps = {{.topic = "step"}},
                                           .wait = Continuation{.on_complete_topic = "continued"}});
  });
  for (const auto* topic : {"next", "timer", "step", "continued"}) record(platform, topic);
  platform.on_inbox("arrival", [this](const InboxMessage& message, HandlerContext&) {
    const std::lock_guard lock(mutex);
    seen.emplace(message.topic, message.headers.at("traceparent"));
  });
  platform.outbox().enqueue({.topic = "first", .headers = {{"traceparent", context.to_string()}}});
  platform.start();
  for (const auto& [topic, traceparent] : seen_all(5)) {
    EXPECT_EQ(traceparent, context.to_string()) << topic;
  }
}

TEST_P(TraceContract, ARunThatAHandlerTriggersCarriesItsContext) {
  auto platform = open(false);
  platform.jobs().create_or_update({.name = "j", .topic = "run", .cron = "0 0 1 1 *"});
  platform.on("first", [&](const Message&, HandlerContext&) { platform.jobs().trigger("j"); });
  record(platform, "run");
  platform.outbox().enqueue({.topic = "first", .headers = {{"traceparent", context.to_string()}}});
  platform.start();
  EXPECT_EQ(seen_all(1).at("run"), context.to_string());
}

TEST_P(TraceContract, TheFirstTryIsAChildAndARetryIsLinked) {
  auto platform = open(true);
  std::atomic<int> tries{0};
  platform.on("a",
              [&](const Message&, HandlerContext&) {
                if (++tries == 1) throw std::runtime_error("try again");
              },
              {.backoff = [](int) { return std::chrono::milliseconds{1}; }});
  {
    const TraceScope scope(context);
    platform.outbox().enqueue({.topic = "a"});
  }
  platform.start();
  ASSERT_TRUE(eventually([&] {
    backend.advance(std::chrono::milliseconds{5});  // the retry becomes due
    return spans->of("process a").size() == 2;
  }));
  const auto produced = spans->of("enqueue a");
  ASSERT_THAT(produced, SizeIs(1));
  EXPECT_EQ(produced[0].kind, SpanKind::producer);
  EXPECT_EQ(produced[0].parent, context);
  EXPECT_EQ(produced[0].context.trace_id, context.trace_id);
  const auto consumed = spans->of("process a");
  EXPECT_EQ(consumed[0].kind, SpanKind::consumer);
  EXPECT_EQ(consumed[0].parent, produced[0].context);
  EXPECT_EQ(consumed[0].context.trace_id, context.trace_id);
  EXPECT_EQ(consumed[0].error, "try again");
  EXPECT_LE(consumed[0].started_at, consumed[0].ended_at);
  EXPECT_FALSE(consumed[1].parent);
  EXPECT_EQ(consumed[1].link, produced[0].context);
  EXPECT_NE(consumed[1].context.trace_id, context.trace_id);
  EXPECT_EQ(consumed[1].error, "");
}

TEST_P(TraceContract, MessagesOfATracedHandlerAreChildrenOfItsSpan) {
  auto platform = open(true);
  platform.on("a", [&](const Message&, HandlerContext& handler) {
    platform.outbox().enqueue(handler.transaction(), {.topic = "b"});
  });
  platform.on("b", [](const Message&, HandlerContext&) {});
  platform.outbox().enqueue({.topic = "a"});
  platform.start();
  ASSERT_TRUE(eventually([&] { return spans->of("process b").size() == 1; }));
  const auto first = spans->of("process a").at(0);
  EXPECT_EQ(spans->of("enqueue a").at(0).parent, std::nullopt) << "the trace begins here";
  EXPECT_EQ(spans->of("enqueue b").at(0).parent, first.context);
  EXPECT_EQ(spans->of("process b").at(0).context.trace_id, first.context.trace_id);
}

TEST_P(TraceContract, HostileContextsAreIgnoredAndUnsampledOnesAreNotRecorded) {
  auto platform = open(true);
  platform.on("a", [](const Message&, HandlerContext&) {});
  platform.on("b", [](const Message&, HandlerContext&) {});
  platform.outbox().enqueue({.topic = "a", .headers = {{"traceparent", "00-<script>-\n"}}});
  auto unsampled = context;
  unsampled.sampled = false;
  platform.outbox().enqueue({.topic = "b", .headers = {{"traceparent", unsampled.to_string()}}});
  platform.start();
  ASSERT_TRUE(eventually([&] { return spans->of("process a").size() == 1; }));
  ASSERT_TRUE(
      eventually([&] { return platform.metrics().counter("dovetail_settled_total") == 2; }));
  EXPECT_EQ(spans->of("process a")[0].parent, spans->of("enqueue a").at(0).context);
  EXPECT_THAT(spans->of("enqueue b"), SizeIs(0));
  EXPECT_THAT(spans->of("process b"), SizeIs(0));
}

TEST_P(TraceContract, ASinkThatThrowsChangesNothing) {
  class Throwing final : public TraceSink {
   public:
    void end(const Span&) override { throw std::runtime_error("full"); }
  };
  auto options = backend.options();
  options.trace_sink = std::make_shared<Throwing>();
  auto platform = Platform::open(backend.url(), options);
  platform.on("a", [](const Message&, HandlerContext&) {});
  platform.outbox().enqueue({.topic = "a"});
  platform.start();
  EXPECT_TRUE(eventually([&] { return platform.outbox().counts().done == 1; }));
}

}  // namespace
}  // namespace dovetail::testing
