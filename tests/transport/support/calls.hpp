// Calls of publishers and consumers, and messages for them.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "dovetail/transport.hpp"

namespace dovetail::testing {

inline TransportCall call_for(std::chrono::milliseconds time, std::stop_token stop = {}) {
  return {.deadline = MonoTime::clock::now() + time, .stop = std::move(stop)};
}
inline TransportCall patient_call() {
  return call_for(std::chrono::seconds{20});
}

inline Message make_message(const std::string& topic, const std::string& payload = "{}") {
  const auto id = MessageId::generate();
  return {.id = id,
          .message_id = id,
          .topic = topic,
          .payload = payload,
          .created_at = std::chrono::time_point_cast<std::chrono::microseconds>(
              std::chrono::system_clock::now())};
}

inline std::vector<std::uint64_t> tags_of(const std::vector<IncomingMessage>& messages) {
  std::vector<std::uint64_t> tags;
  for (const auto& message : messages) tags.push_back(message.tag);
  return tags;
}

inline bool all_confirmed(const std::vector<PublishOutcome>& outcomes) {
  return std::ranges::all_of(outcomes, [](const PublishOutcome& outcome) {
    return outcome.result == PublishResult::confirmed;
  });
}

/// Publishes until all messages are confirmed. None may be rejected meanwhile.
inline void publish_all(Publisher& publisher, std::vector<Message> messages,
                        std::chrono::milliseconds time) {
  for (int calls = 0; calls < 200 && !messages.empty(); ++calls) {
    std::vector<PublishOutcome> outcomes(messages.size());
    try {
      outcomes = publisher.publish(messages, call_for(time));
    } catch (const std::exception&) {
      continue;  // all are unavailable
    }
    std::vector<Message> rest;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (outcomes[i].result == PublishResult::confirmed) continue;
      EXPECT_EQ(outcomes[i].result, PublishResult::unavailable) << outcomes[i].reason;
      rest.push_back(messages[i]);
    }
    messages = std::move(rest);
  }
  EXPECT_TRUE(messages.empty()) << messages.size() << " messages were never confirmed";
}

}  // namespace dovetail::testing
