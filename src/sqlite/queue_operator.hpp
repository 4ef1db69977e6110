// Counts, finds, replays and purges messages of one queue in SQLite.
#pragma once

#include "sqlite/queue_context.hpp"
#include "storage/queue_operator.hpp"

namespace dovetail::sqlite {

class QueueOperator final : public storage::QueueOperator {
 public:
  explicit QueueOperator(const QueueContext& context) : context_(context) {}

  std::size_t replay(storage::WriteSession& session, std::optional<std::span<const MessageId>> ids,
                     const DeadLetterFilter& filter, int most) override;
  std::size_t purge_failed(storage::WriteSession& session,
                           std::optional<std::span<const MessageId>> ids,
                           const DeadLetterFilter& filter, int most) override;
  std::size_t purge_done(storage::WriteSession& session, std::chrono::microseconds age,
                         int most) override;
  bool pause(storage::WriteSession& session, std::string_view topic) override;
  bool resume(storage::WriteSession& session, std::string_view topic) override;
  WallTime now(storage::ReadSession& session) override;
  using storage::QueueOperator::counts;
  QueueCounts counts(storage::ReadSession& session, std::int64_t up_to) override;
  bool has_work(storage::ReadSession& session, std::span<const std::string> topics) override;
  std::vector<storage::DueTopic> due_topics(storage::ReadSession& session,
                                            std::chrono::microseconds waiting,
                                            int scan_limit) override;
  std::optional<StoredMessage> find(storage::ReadSession& session, MessageId id) override;
  storage::ListResult list(storage::ReadSession& session,
                           const storage::ListRequest& request) override;
  std::pair<std::vector<TopicCounts>, std::int64_t> topics(storage::ReadSession& session,
                                                           const TopicPage& page) override;
  std::vector<StoredMessage> dead_letters(storage::ReadSession& session,
                                          const DeadLetterFilter& filter,
                                          const DeadLetterPage& page) override;
  DeadLetterSummary dead_letter_summary(storage::ReadSession& session,
                                        const DeadLetterFilter& filter,
                                        const DeadLetterSummaryLimits& limits) override;
  std::vector<PausedTopic> paused(storage::ReadSession& session) override;
  std::vector<StreamInfo> streams(storage::ReadSession& session, const StreamPage& page) override;
  std::optional<StreamInfo> find_stream(storage::ReadSession& session,
                                        std::string_view stream) override;
  bool resume_stream(storage::WriteSession& session, std::string_view stream) override;
  bool skip_stream(storage::WriteSession& session, std::string_view stream) override;

 private:
  const QueueContext& context_;
};

}  // namespace dovetail::sqlite
