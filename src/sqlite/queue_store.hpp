#pragma once

#include <memory>
#include <set>
#include <string>

#include "dovetail/clock.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/queue_watcher.hpp"
#include "sqlite/sql.hpp"
#include "storage/queue_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class QueueStore final : public storage::QueueStore, private Connection::Gathered {
 public:
  /// `watcher` is told of messages that end and that come back.
  QueueStore(const storage::StatementTexts& texts, const sql::Queue& queue,
             std::shared_ptr<Clock> clock, QueueWatcher& watcher)
      : texts_(texts), sql_(queue), clock_(std::move(clock)), watcher_(watcher) {}

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
  // Single messages of several callers that share a transaction.
  void write(Connection& connection) override;
  void drop() noexcept override { gathered_.clear(); }
  /// Stores messages that nothing can stand in the way of: one, or as many as one statement takes.
  using Messages = std::span<const storage::NewMessage* const>;
  void insert(Connection& connection, Messages some);

  struct ClaimedRow {
    std::int64_t seq;
    int attempts;
  };
  /// The row of a claim that still holds.
  std::optional<ClaimedRow> find_claimed(Connection& connection, OwnerToken owner,
                                         const Claim& claim, WallTime now);
  std::size_t ack_all(Connection& connection, OwnerToken owner, std::span<const Claim> claims,
                      bool keep, WallTime now);
  /// The same for messages that nobody watches.
  std::size_t ack_unwatched(Connection& connection, OwnerToken owner, std::span<const Claim> claims,
                            bool keep, WallTime now);
  /// Claims whose rows follow one another.
  std::size_t ack_run(Connection& connection, OwnerToken owner, std::span<const Claim> run,
                      bool keep, WallTime now);
  std::size_t ack_some(Connection& connection, OwnerToken owner, std::span<const Claim> claims,
                       bool keep, WallTime now);
  bool abandon_one(Connection& connection, OwnerToken owner, const Claim& claim,
                   std::string_view error, std::optional<std::chrono::microseconds> delay,
                   int max_attempts, WallTime now);
  bool fail_one(Connection& connection, OwnerToken owner, const Claim& claim,
                std::string_view error, int charge, WallTime now);
  bool snooze_one(Connection& connection, OwnerToken owner, const Claim& claim,
                  std::optional<std::chrono::microseconds> delay, WallTime now);
  void fail_row(Connection& connection, std::int64_t seq, int charge,
                std::optional<std::string_view> error, std::optional<OwnerToken> by, WallTime now);
  using PausedTopics = std::set<std::string, std::less<>>;
  /// A message whose turn it is, unless something stands against it.
  struct DueRow {
    storage::ClaimedEntry entry;
    std::int64_t seq = 0;
    bool lost = false;  // its lease ran out
  };
  /// A claim on its way from the highest lane to the lowest.
  struct ClaimRun {
    const storage::ClaimOrder& order;
    WallTime now;
    PausedTopics paused{};
    std::int64_t bytes = 0;  // of the payloads claimed so far
    storage::Claimed claimed{};
    bool full = false;  // by count or by bytes
  };
  /// Reads the row that the cursor stands on; false when its payload is too much for this claim.
  static bool read_due(ClaimRun& run, const Cursor& cursor, std::vector<DueRow>& rows);
  /// How far into a lane a claim has come.
  struct Place {
    std::int64_t lane;
    storage::QueueMark from{.ready_at = WallTime::min(), .id = {}, .row = 0};
    bool is_end = false;
  };
  std::vector<DueRow> due_rows(Connection& connection, ClaimRun& run, Place& place,
                               std::size_t most);
  /// The same behind many messages of topics that the claim does not take.
  std::vector<DueRow> due_rows_far_away(Connection& connection, ClaimRun& run, Place& place,
                                        std::size_t most);
  std::vector<std::int64_t> leap(Connection& connection, ClaimRun& run, Place& place,
                                 std::size_t most);
  /// Whether the row's message may be handed out; if not, it is put where it belongs.
  bool may_have(Connection& connection, const ClaimRun& run, DueRow& row);
  void lease(Connection& connection, const storage::ClaimOrder& order, WallTime until,
             std::span<const std::int64_t> rows);
  /// The next lane that holds messages.
  std::optional<std::int64_t> lane_below(Connection& connection, std::int64_t lane);
  void claim_lane(Connection& connection, ClaimRun& run, std::int64_t lane);
  std::optional<std::chrono::microseconds> next_due(Connection& connection,
                                                    const storage::ClaimOrder& order, WallTime now);

  const storage::StatementTexts& texts_;
  const sql::Queue& sql_;
  std::shared_ptr<Clock> clock_;
  QueueWatcher& watcher_;
  std::vector<const storage::NewMessage*> gathered_;
};

}  // namespace dovetail::sqlite
