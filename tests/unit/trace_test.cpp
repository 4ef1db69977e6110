#include "dovetail/trace.hpp"

#include <thread>

namespace dovetail {
namespace {

constexpr std::string_view example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, ReadsAndWritesATraceparent) {
  const auto context = TraceContext::parse(example);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id[0], 0x4b);
  EXPECT_EQ(context->span_id[7], 0xb7);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->to_string(), example);
}

TEST(TraceContext, ReadsFlagsAndNewerVersionsAsTheRecommendationSays) {
  std::string text{example};
  text.replace(53, 2, "00");
  EXPECT_FALSE(TraceContext::parse(text)->sampled);
  text.replace(53, 2, "fe");
  EXPECT_FALSE(TraceContext::parse(text)->sampled) << "only the last bit counts";
  text.replace(0, 2, "cc");
  EXPECT_TRUE(TraceContext::parse(text + "-what-ever")) << "a newer version may have more fields";
  EXPECT_FALSE(TraceContext::parse(text + "x"));
}

TEST(TraceContext, RefusesEverythingElse) {
  std::vector<std::string> bad{"",
                               "00",
                               "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                               "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
                               "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                               "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                               "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                               "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                               "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
                               "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
                               std::string(1'000'000, '-'),
                               std::string(55, '\0'),
                               "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7\n-01"};
  for (const auto& text : bad) EXPECT_FALSE(TraceContext::parse(text)) << text.substr(0, 80);
}

TEST(TraceContext, AChildBelongsToTheSameTrace) {
  const auto parent = TraceContext::begin();
  const auto child = parent.child();
  EXPECT_EQ(child.trace_id, parent.trace_id);
  EXPECT_NE(child.span_id, parent.span_id);
  EXPECT_NE(TraceContext::begin().trace_id, parent.trace_id);
  EXPECT_EQ(TraceContext::parse(child.to_string()), child);
}

TEST(TraceScope, NestsAndBelongsToItsThread) {
  EXPECT_FALSE(current_trace());
  const auto outer = TraceContext::begin();
  const TraceScope scope(outer);
  EXPECT_EQ(current_trace(), outer);
  {
    const TraceScope inner(outer.child());
    EXPECT_NE(current_trace(), outer);
    const TraceScope none(std::nullopt);
    EXPECT_FALSE(current_trace());
  }
  EXPECT_EQ(current_trace(), outer);
  std::jthread([] { EXPECT_FALSE(current_trace()); }).join();
}

}  // namespace
}  // namespace dovetail
