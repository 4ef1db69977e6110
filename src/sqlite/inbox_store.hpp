#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/queue_watcher.hpp"
#include "storage/inbox_store.hpp"
#include "storage/queue_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class InboxStore final : public storage::InboxStore, public QueueWatcher {
 public:
  /// `queue` holds the messages that wait for handlers. This store must watch it.
  InboxStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock,
             const storage::QueueStore& queue)
      : texts_(texts), clock_(std::move(clock)), queue_(queue) {}

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

  // The store watches all messages of the queue.
  std::vector<Uuid> watched(Connection& /*connection*/, std::span<const Uuid> messages) override {
    return {messages.begin(), messages.end()};
  }
  void ended(Connection& connection, std::span<const Uuid> messages, Ending ending,
             WallTime now) override;
  void replayed(Connection& connection, std::span<const Uuid> messages) override;

 private:
  struct Seen;
  Seen note(Connection& connection, const storage::InboxKey& key, ContentHash hash, WallTime now,
            bool counts = true);
  InboxEnqueued receive_one(storage::WriteSession& session, const storage::InboxArrival& arrival,
                            WallTime now);
  struct DeadRow;
  std::vector<DeadRow> dead_rows(Connection& connection, const storage::Statement& statement,
                                 const InboxDeadLetterFilter& filter, int most);

  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
  storage::QueueStore queue_;
};

}  // namespace dovetail::sqlite
