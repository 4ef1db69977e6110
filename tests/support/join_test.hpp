// The base of contracts about joins.
#pragma once

#include <string>
#include <vector>

#include "support/outbox_test.hpp"

namespace dovetail::testing {

class JoinTest : public OutboxTest {
 protected:
  JoinId started(int expected_steps) { return joins.start({.expected_steps = expected_steps}); }
  /// A message that is a step of `join`.
  MessageId step(JoinId join, const std::string& topic = "step") {
    return outbox.enqueue({.topic = topic, .joins = {join}});
  }
  /// Claims these messages, which must be due, and no others.
  std::vector<Claim> claimed(std::size_t count) {
    auto claims = claims_of(claim(static_cast<int>(count)));
    EXPECT_EQ(claims.size(), count);
    return claims;
  }
  Join got(JoinId join) {
    const auto found = joins.find(join);
    EXPECT_TRUE(found.has_value());
    return found.value_or(Join{});
  }
  /// "completed/failed of expected, status"
  std::string state(JoinId join) {
    const auto found = got(join);
    return std::to_string(found.completed_steps) + "/" + std::to_string(found.failed_steps) +
           " of " + std::to_string(found.expected_steps) + ", " +
           std::string{to_string(found.status)};
  }
  std::vector<StepStatus> steps_of(JoinId join) {
    std::vector<StepStatus> steps;
    for (const auto& member : joins.members(join)) steps.push_back(member.status);
    return steps;
  }

  Joins& joins = platform.joins();
};

}  // namespace dovetail::testing
