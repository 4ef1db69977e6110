// The base of contracts about the inbox.
#pragma once

#include <gmock/gmock.h>

#include <array>
#include <string>
#include <vector>

#include "support/backend.hpp"

namespace dovetail::testing {

/// A hash that differs for different contents.
inline std::array<std::byte, 32> hash_of(char content) {
  std::array<std::byte, 32> hash{};
  hash.fill(static_cast<std::byte>(content));
  return hash;
}

class InboxTest : public BackendTest {
 protected:
  InboxEntry found(const std::string& id, const std::string& source = "s") {
    const auto entry = inbox.find(source, id);
    EXPECT_TRUE(entry.has_value()) << id;
    return entry.value_or(InboxEntry{});
  }
  InboxStatus status_of(const std::string& id, const std::string& source = "s") {
    return found(id, source).status;
  }
  InboxEnqueued put(const std::string& id, const std::string& topic = "t",
                    const std::string& source = "s") {
    return inbox.enqueue(
        {.topic = topic, .source = source, .message_id = id, .payload = "payload of " + id});
  }
  std::vector<ClaimedMessage> claim(int batch_size = 100) {
    return inbox.queue().claim({.owner = owner, .batch_size = batch_size});
  }
  std::vector<Claim> claims(int batch_size = 100) {
    std::vector<Claim> result;
    for (const auto& each : claim(batch_size)) result.push_back(each.claim);
    return result;
  }
  /// Creates a dead letter of the queue.
  void kill(const std::string& id, const std::string& topic = "t",
            const std::string& error = "broken") {
    put(id, topic);
    EXPECT_EQ(inbox.queue().fail(owner, claims(), error), 1U);
  }
  /// Creates a table for the effects of handlers.
  std::string effects_table() {
    const auto table = backend.is_postgres() ? backend.schema() + ".effects" : "effects";
    backend.sql("create table " + table + " (effect text)");
    return table;
  }

  Platform platform = backend.open();
  Inbox& inbox = platform.inbox();
  OwnerToken owner = OwnerToken::generate();
};

}  // namespace dovetail::testing
