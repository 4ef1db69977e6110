// The base of contracts about the work coordinator.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "support/backend.hpp"

namespace dovetail::testing {

class WorkTest : public BackendTest {
 protected:
  WorkResult store_outbox(const std::vector<EnqueueRequest>& requests) {
    WorkBatch batch;
    for (const auto& each : requests) batch.outbox_messages.push_back({.message = each});
    return work.process_work_batch(batch);
  }
  WorkResult store_inbox(const std::string& id, bool claims = false) {
    WorkBatch batch{.inbox_messages = {{.message = inbox_request(id)}}};
    if (claims) batch.claim_inbox = WorkClaim{.stored_only = true};
    return work.process_work_batch(batch);
  }
  static InboxRequest inbox_request(const std::string& id, const std::string& stream = {}) {
    return {.topic = "t",
            .source = "s",
            .message_id = id,
            .payload = "payload of " + id,
            .stream = stream.empty() ? std::nullopt : std::optional{stream}};
  }
  static EnqueueRequest message(const std::string& payload, const std::string& stream = {}) {
    return {.topic = "t",
            .payload = payload,
            .stream = stream.empty() ? std::nullopt : std::optional{stream}};
  }
  std::vector<Work> claim(const WorkOptions& options = {}, int batch_size = 100) {
    return work.process_work_batch({.claim_outbox = WorkClaim{.batch_size = batch_size}}, options)
        .work;
  }
  std::vector<Work> claim_inbox(const WorkOptions& options = {}) {
    return work.process_work_batch({.claim_inbox = WorkClaim{.batch_size = 100}}, options).work;
  }
  WorkResult complete(const std::vector<Work>& done, Stages stages = {},
                      const WorkOptions& options = {}) {
    WorkBatch batch;
    for (const auto& each : done)
      batch.completions.push_back({.queue = each.queue, .claim = each.claim, .stages = stages});
    return work.process_work_batch(batch, options);
  }
  WorkResult fail(const Work& failed, const std::string& error, const FailureOptions& how = {},
                  const WorkOptions& options = {}) {
    return work.process_work_batch({.failures = {{.queue = failed.queue,
                                                  .claim = failed.claim,
                                                  .stages = how.stages,
                                                  .error = error,
                                                  .permanent = how.permanent,
                                                  .delay = how.delay}}},
                                   options);
  }
  static std::vector<std::string> payloads(const std::vector<Work>& all) {
    std::vector<std::string> texts;
    for (const auto& each : all) texts.push_back(each.message.payload);
    return texts;
  }
  StoredMessage outbox_message(const MessageId& id) {
    const auto found = platform.outbox().find(id);
    EXPECT_TRUE(found.has_value());
    return found.value_or(StoredMessage{});
  }

  Platform platform = backend.open();
  WorkBatches& work = platform.work();
};

}  // namespace dovetail::testing
