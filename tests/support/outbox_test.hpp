// The base of contracts about the outbox: a platform, an owner, and common calls of the tests.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/backend.hpp"

namespace dovetail::testing {

class OutboxTest : public BackendTest {
 protected:
  std::vector<ClaimedMessage> claim(int batch_size = 100,
                                    std::chrono::seconds lease = std::chrono::seconds{30}) {
    return outbox.claim({.owner = owner, .batch_size = batch_size, .lease = lease});
  }
  std::vector<ClaimedMessage> claim_as(OwnerToken who) {
    return outbox.claim({.owner = who, .batch_size = 100});
  }
  static std::vector<Claim> claims_of(const std::vector<ClaimedMessage>& claimed) {
    std::vector<Claim> claims;
    for (const auto& each : claimed) claims.push_back(each.claim);
    return claims;
  }
  /// A message of `topic`, claimed by `owner`.
  std::vector<Claim> claimed_one(const std::string& topic = "t") {
    outbox.enqueue({.topic = topic});
    auto claims = claims_of(claim(1));
    EXPECT_EQ(claims.size(), 1U);
    return claims;
  }
  /// A dead letter of `topic`.
  MessageId failed_one(const std::string& topic = "t", const std::string& error = "broken") {
    const auto claims = claimed_one(topic);
    EXPECT_EQ(outbox.fail(owner, claims, error), 1U);
    return MessageId{claims.at(0).id.uuid()};
  }
  std::int64_t stored() {
    return backend.number("select count(*) from " + backend.table("outbox_messages"));
  }
  std::int64_t with_status(MessageStatus status) {
    return backend.number("select count(*) from " + backend.table("outbox_messages") +
                          " where status = " + std::to_string(static_cast<int>(status)));
  }
  StoredMessage found(MessageId id) {
    const auto message = outbox.find(id);
    EXPECT_TRUE(message.has_value());
    return message.value_or(StoredMessage{});
  }

  Platform platform = backend.open();
  Outbox& outbox = platform.outbox();
  OwnerToken owner = OwnerToken::generate();
};

}  // namespace dovetail::testing
