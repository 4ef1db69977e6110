#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "storage/fanout_store.hpp"
#include "storage/queue_producer.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class FanoutStore final : public storage::FanoutStore {
 public:
  FanoutStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock,
              storage::QueueProducer& outbox)
      : texts_(texts), clock_(std::move(clock)), outbox_(outbox) {}

  void register_policy(storage::WriteSession& session,
                       const storage::NewFanoutPolicy& policy) override;
  bool set_cadence(storage::WriteSession& session, const storage::FanoutKey& key,
                   std::chrono::milliseconds every,
                   std::optional<std::chrono::milliseconds> jitter) override;
  bool reset_cadence(storage::WriteSession& session, const storage::FanoutKey& key) override;
  bool remove(storage::WriteSession& session, const storage::FanoutKey& key) override;
  std::vector<storage::EnqueuedSlice> plan(storage::WriteSession& session, std::string_view topic,
                                           std::span<const FanoutCandidate> candidates) override;
  bool mark_completed(storage::WriteSession& session, const FanoutSlice& slice) override;
  std::size_t purge(storage::WriteSession& session, storage::FanoutPurge& part) override;
  std::optional<WallTime> last_completed(storage::ReadSession& session,
                                         const FanoutSlice& slice) override;
  std::vector<FanoutPolicy> policies(storage::ReadSession& session,
                                     std::optional<std::string_view> topic) override;
  std::vector<FanoutCursor> cursors(storage::ReadSession& session, std::string_view topic,
                                    const FanoutCursorPage& page) override;

 private:
  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
  storage::QueueProducer& outbox_;
};

}  // namespace dovetail::sqlite
