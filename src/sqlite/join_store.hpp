#pragma once

#include <map>
#include <memory>

#include "dovetail/clock.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/queue_watcher.hpp"
#include "storage/doorbell.hpp"
#include "storage/join_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class JoinStore final : public storage::JoinStore, public QueueWatcher {
 public:
  /// The store rings `bell` for messages that the end of a join makes ready. The next claim waits
  /// for the writer, and so for the transaction that ended the join.
  JoinStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock,
            storage::Doorbell& bell)
      : texts_(texts), clock_(std::move(clock)), bell_(bell) {}

  bool start(storage::WriteSession& session, const storage::NewJoin& join) override;
  void expect(storage::WriteSession& session, JoinId join, int steps) override;
  void grow(storage::WriteSession& session, JoinId join, int steps) override;
  std::optional<JoinId> missing(storage::WriteSession& session,
                                std::span<const JoinId> joins) override;
  storage::AttachAnswer attach(storage::WriteSession& session,
                               std::span<const storage::Membership> members,
                               bool known_only) override;
  std::optional<bool> report(storage::WriteSession& session, JoinId join, MessageId message,
                             StepStatus status) override;
  bool is_reported(storage::WriteSession& session, JoinId join, MessageId message,
                   StepStatus status) override;
  std::optional<bool> cancel(storage::WriteSession& session, JoinId join) override;
  bool is_cancelled(storage::WriteSession& session, JoinId join) override;
  void await(storage::WriteSession& session, JoinId join, MessageId message) override;
  std::optional<storage::AwaitedJoin> wait(storage::WriteSession& session, JoinId join,
                                           MessageId message) override;
  std::vector<Join> take_unlogged(storage::WriteSession& session, int most) override;
  std::size_t fail_overdue(storage::WriteSession& session, int most) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;
  std::optional<Join> find(storage::ReadSession& session, JoinId join) override;
  std::vector<Join> list(storage::ReadSession& session, const JoinFilter& filter,
                         const JoinPage& page) override;
  std::vector<JoinMember> members(storage::ReadSession& session, JoinId join,
                                  const MemberPage& page) override;
  std::vector<JoinId> joins_of(storage::ReadSession& session, MessageId message, int most) override;
  std::vector<MessageId> waiting(storage::ReadSession& session, JoinId join, int most) override;

  // The store watches the messages of joins in the outbox.

  /// Returns no messages if the tables of joins were removed.
  std::vector<Uuid> watched(Connection& connection, std::span<const Uuid> messages) override;
  void ended(Connection& connection, std::span<const Uuid> messages, Ending ending,
             WallTime now) override;
  /// Does nothing: a counted step stays counted.
  void replayed(Connection& /*connection*/, std::span<const Uuid> /*messages*/) override {}
  /// A message may wait for a join for any time.
  bool spares(Connection& connection, const Uuid& message) override;

 private:
  bool is_installed(Connection& connection);
  bool watches_any(Connection& connection);
  /// Collects ended steps, and counts them with one update per join.
  class Tally {
   public:
    Tally(JoinStore& store, Connection& connection) : store_(store), connection_(connection) {}
    /// Adds an ended message to all joins that wait for it.
    void add(const Uuid& message, StepStatus status);
    /// The same for one join. Returns whether it was the first end of the step.
    bool add(const JoinId& join, const Uuid& message, StepStatus status);
    void count(WallTime now);

   private:
    struct Steps {
      std::int64_t completed = 0;
      std::int64_t failed = 0;
    };
    JoinStore& store_;
    Connection& connection_;
    std::map<JoinId, Steps> joins_;
  };

  void wake(Connection& connection, const JoinId& join, WallTime now);
  void fail_for_deadline(Connection& connection, const JoinId& join, WallTime now);
  std::optional<Join> find(Connection& connection, const JoinId& join);
  /// The status of a message in the table of the outbox.
  std::optional<std::int64_t> stored_status(Connection& connection, MessageId message);

  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
  storage::Doorbell& bell_;
};

}  // namespace dovetail::sqlite
