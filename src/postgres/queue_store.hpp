#pragma once

#include "postgres/session.hpp"
#include "postgres/sql.hpp"
#include "storage/queue_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class QueueStore final : public storage::QueueStore {
 public:
  QueueStore(const storage::StatementTexts& texts, const sql::Queue& queue)
      : texts_(texts), sql_(queue) {}

  Enqueued enqueue(storage::WriteSession& session, const storage::NewMessage& message) override;
  std::vector<Enqueued> enqueue_many(storage::WriteSession& session,
                                     std::span<const storage::NewMessage> messages,
                                     bool repeated) override;
  storage::Claimed claim(storage::WriteSession& session, const storage::ClaimOrder& order) override;
  storage::WorkAnswer work(storage::WriteSession& session,
                           const storage::WorkOrder& order) override;
  std::vector<Claim> settleable(storage::WriteSession& session, OwnerToken owner,
                                std::span<const Claim> claims) override;
  void absolve(storage::WriteSession& session, std::span<const MessageId> ids) override;
  std::size_t ack(storage::WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                  bool keep) override;
  std::size_t abandon(storage::WriteSession& session, OwnerToken owner,
                      std::span<const Claim> claims, std::string_view error,
                      std::optional<std::chrono::microseconds> delay, int max_attempts) override;
  std::size_t fail(storage::WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                   std::string_view error, int charge) override;
  std::size_t snooze(storage::WriteSession& session, OwnerToken owner,
                     std::span<const Claim> claims,
                     std::optional<std::chrono::microseconds> delay) override;
  std::vector<MessageId> renew(storage::WriteSession& session, OwnerToken owner,
                               std::span<const Claim> claims,
                               std::chrono::microseconds lease) override;
  std::size_t reap_expired(storage::WriteSession& session, std::optional<int> max_attempts,
                           int most, std::optional<int> look_at) override;
  std::size_t replay(storage::WriteSession& session, std::optional<std::span<const MessageId>> ids,
                     const DeadLetterFilter& filter, int most) override;
  std::size_t purge_failed(storage::WriteSession& session,
                           std::optional<std::span<const MessageId>> ids,
                           const DeadLetterFilter& filter, int most) override;
  std::size_t purge_done(storage::WriteSession& session, std::chrono::microseconds age,
                         int most) override;
  bool pause(storage::WriteSession& session, std::string_view topic) override;
  bool resume(storage::WriteSession& session, std::string_view topic) override;
  std::size_t unpark(storage::WriteSession& session, std::optional<std::string_view> topic,
                     int most) override;
  WallTime now(storage::ReadSession& session) override;
  QueueCounts counts(storage::ReadSession& session) override;
  bool has_work(storage::ReadSession& session, std::span<const std::string> topics) override;
  std::vector<storage::DueTopic> due_topics(storage::ReadSession& session,
                                            std::chrono::microseconds waiting,
                                            int look_at) override;
  std::optional<StoredMessage> find(storage::ReadSession& session, MessageId id) override;
  std::vector<StoredMessage> dead_letters(storage::ReadSession& session,
                                          const DeadLetterFilter& filter,
                                          const DeadLetterPage& page) override;
  DeadLetterSummary dead_letter_summary(storage::ReadSession& session,
                                        const DeadLetterFilter& filter,
                                        const DeadLetterSummaryLimits& limits) override;
  std::vector<PausedTopic> paused(storage::ReadSession& session) override;

 private:
  using Calls = std::vector<SessionCore::Call>;
  std::size_t add_settlements(Calls& calls, const storage::WorkOrder& order) const;

  const storage::StatementTexts& texts_;
  const sql::Queue& sql_;
};

}  // namespace dovetail::postgres
