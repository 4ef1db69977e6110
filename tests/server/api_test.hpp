// The base of tests of `/api/v1`.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "support/eventually.hpp"
#include "support/server_test.hpp"

namespace dovetail::testing {

class ApiTest : public ServerTest {
 protected:
  ApiTest() { serve(); }

  nlohmann::json read(const std::string& path, int status = 200) {
    const auto answer = get("/api/v1" + path);
    EXPECT_EQ(answer.status, status) << path << " " << answer.body;
    return json_of(answer);
  }
  nlohmann::json change(const std::string& path, const nlohmann::json& body = nullptr,
                        int status = 200, const std::string& method = "POST") {
    const auto answer = ask(method, "/api/v1" + path, {"Content-Type: application/json"},
                            body.is_null() ? std::string{"{}"} : body.dump());
    EXPECT_EQ(answer.status, status) << path << " " << answer.body;
    return json_of(answer);
  }
  /// The rows of the audit, oldest first: `action target count result`.
  std::vector<std::string> audited() {
    std::vector<std::string> rows;
    for (const auto& entry : platform.audit().list({.size = 1'000})) {
      const auto& record = entry.record;
      rows.insert(rows.begin(), record.action + " " + record.target + " " +
                                    (record.count ? std::to_string(*record.count) : "-") + " " +
                                    record.result);
    }
    return rows;
  }
  MessageId failed_one(const std::string& topic = "mail", const std::string& payload = "p",
                       const std::string& error = "bounced") {
    auto& outbox = platform.outbox();
    const MessageId id = outbox.enqueue({.topic = topic, .payload = payload});
    const auto claimed = outbox.claim({.owner = owner, .topics = {topic}});
    std::vector<Claim> claims;
    for (const auto& each : claimed) claims.push_back(each.claim);
    EXPECT_EQ(outbox.fail(owner, claims, error), claims.size());
    return id;
  }

  OwnerToken owner = OwnerToken::generate();
};

}  // namespace dovetail::testing
