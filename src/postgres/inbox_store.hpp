#pragma once

#include "storage/inbox_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class InboxStore final : public storage::InboxStore {
 public:
  explicit InboxStore(const storage::StatementTexts& texts) : texts_(texts) {}

  storage::Sighting record_sighting(storage::WriteSession& session, const storage::InboxKey& key,
                                    ContentHash hash) override;
  storage::BeginAnswer try_begin(storage::WriteSession& session, const storage::InboxKey& key,
                                 const storage::BeginOrder& order) override;
  bool continue_try(storage::WriteSession& session, const storage::InboxKey& key,
                    const storage::InboxFence& fence, std::chrono::microseconds lease) override;
  std::optional<InboxStatus> mark_processing(storage::WriteSession& session,
                                             const storage::InboxKey& key,
                                             std::chrono::microseconds lease,
                                             int max_attempts) override;
  bool mark_processed(storage::WriteSession& session, const storage::InboxKey& key,
                      const std::optional<storage::InboxFence>& fence) override;
  bool mark_dead(storage::WriteSession& session, const storage::InboxKey& key,
                 const std::optional<storage::InboxFence>& fence, std::string_view reason) override;
  bool is_marked(storage::WriteSession& session, const storage::InboxKey& key, InboxStatus status,
                 const std::optional<storage::InboxFence>& fence) override;
  bool release(storage::WriteSession& session, const storage::InboxKey& key,
               const storage::InboxFence& fence, std::string_view error, int charge) override;
  std::optional<WallTime> renew(storage::WriteSession& session, const storage::InboxKey& key,
                                const storage::InboxFence& fence,
                                std::chrono::microseconds lease) override;
  std::vector<InboxEnqueued> receive(storage::WriteSession& session,
                                     std::span<const storage::InboxArrival> arrivals) override;
  void fail_stored(storage::WriteSession& session, MessageId id, std::string_view error) override;
  std::size_t replay(storage::WriteSession& session, const InboxDeadLetterFilter& filter,
                     const ReplayOptions& options, int most) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;
  std::size_t purge_dead_letters(storage::WriteSession& session,
                                 const InboxDeadLetterFilter& filter, int most) override;
  std::optional<InboxEntry> find(storage::ReadSession& session,
                                 const storage::InboxKey& key) override;
  std::vector<InboxEntry> dead_letters(storage::ReadSession& session,
                                       const InboxDeadLetterFilter& filter,
                                       const InboxPage& page) override;
  std::vector<InboxEntry> stuck(storage::ReadSession& session, std::chrono::microseconds overdue,
                                int most) override;
  InboxCounts counts(storage::ReadSession& session) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
