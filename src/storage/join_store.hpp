// Joins as a backend stores them.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dovetail/join.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// A checked join on its way into the store.
struct NewJoin {
  JoinId id;
  std::optional<std::string_view> grouping_key;
  int expected_steps = 0;
  std::optional<std::string_view> metadata;
  std::optional<WallTime> deadline;
};

struct Membership {
  JoinId join;
  MessageId message;
};

struct AttachAnswer {
  std::optional<JoinId> missing;     ///< A join that does not exist. Nothing was attached.
  std::size_t attached = 0;          ///< How many were not members before.
  std::optional<MessageId> unknown;  ///< A message that is not stored (yet, or any more).
};

/// The state of a join for the message that waits for it.
struct AwaitedJoin {
  Join join;
  std::optional<std::chrono::microseconds> until_deadline;
};

/// The result of JoinStore::catch_up().
struct CaughtUp {
  std::size_t handled = 0;
  bool waiting = false;  ///< Messages wait for joins.
};

class JoinStore {
 public:
  virtual ~JoinStore() = default;

  /// Returns whether the join was created. If the id exists, nothing changes.
  virtual bool start(WriteSession& session, const NewJoin& join) = 0;
  /// Changes the number of steps of a join that this transaction has created.
  virtual void expect(WriteSession& session, JoinId join, int steps) = 0;
  /// Adds to the number of steps of a join that has a step which this transaction does not end.
  virtual void grow(WriteSession& session, JoinId join, int steps) = 0;
  /// Returns one of these joins that does not exist.
  virtual std::optional<JoinId> missing(WriteSession& session, std::span<const JoinId> joins) = 0;
  /// Steps whose messages have ended are counted at once. With `known_only`, nothing is attached
  /// when a message is not stored.
  virtual AttachAnswer attach(WriteSession& session, std::span<const Membership> members,
                              bool known_only) = 0;
  /// Returns whether the report counted; nothing if the message is not a step of the join.
  virtual std::optional<bool> report(WriteSession& session, JoinId join, MessageId message,
                                     StepStatus status) = 0;
  /// Returns whether the step ended with this status.
  virtual bool is_reported(WriteSession& session, JoinId join, MessageId message,
                           StepStatus status) = 0;
  /// Returns whether the join was pending; nothing if it does not exist.
  virtual std::optional<bool> cancel(WriteSession& session, JoinId join) = 0;
  virtual bool is_cancelled(WriteSession& session, JoinId join) = 0;
  /// Records that a message waits for a join. The end of the join makes the message ready.
  virtual void await(WriteSession& session, JoinId join, MessageId message) = 0;
  /// Returns the join, which cannot end before the transaction of the session does; nothing if it
  /// does not exist. A join past its deadline fails. If it is pending, the message is recorded as
  /// waiting for it.
  virtual std::optional<AwaitedJoin> wait(WriteSession& session, JoinId join,
                                          MessageId message) = 0;

  /// True if transactions may leave work to catch_up().
  [[nodiscard]] virtual bool needs_catch_up() const { return false; }
  /// Counts steps and wakes waiting messages that other transactions could not.
  virtual CaughtUp catch_up(WriteSession& /*session*/, int /*most*/) { return {}; }
  /// Returns joins that ended while no message waited for them. Each join is returned once.
  virtual std::vector<Join> take_unlogged(WriteSession& session, int most) = 0;

  // These handle up to `most` joins per call, and return how many they handled.
  virtual std::size_t fail_overdue(WriteSession& session, int most) = 0;
  virtual std::size_t purge(WriteSession& session, std::chrono::microseconds age, int most) = 0;

  virtual std::optional<Join> find(ReadSession& session, JoinId join) = 0;
  virtual std::vector<Join> list(ReadSession& session, const JoinFilter& filter,
                                 const JoinPage& page) = 0;
  virtual std::vector<JoinMember> members(ReadSession& session, JoinId join,
                                          const MemberPage& page) = 0;
  /// The joins of which the message is a step.
  virtual std::vector<JoinId> joins_of(ReadSession& session, MessageId message, int most) = 0;
  /// The messages that wait for the join.
  virtual std::vector<MessageId> waiting(ReadSession& session, JoinId join, int most) = 0;
};

}  // namespace dovetail::storage
