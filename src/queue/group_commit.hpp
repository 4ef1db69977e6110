// Single messages of several callers in one transaction.
//
// A caller that finds a transaction free leads: it sends its message at once. The messages of other
// callers gather meanwhile. The next leader stores all of them with one statement, and each caller
// returns after the commit that contains its message. A single caller does not wait. If commits are
// slow, further callers lead: they would gain nothing by waiting.
//
// Guarantees
//   * A caller is told the fate of its own message: it is durable, it is not stored, or the commit
//     is in doubt.
//   * A message that cannot be stored does not fail others: the members of a group that failed are
//     told to store their messages alone.
//   * The messages and the bytes of a group are limited (storage::GroupCommitOptions).
//
// Only messages that never wait for another transaction may be in a group: a caller that holds a
// transaction open could otherwise wait for itself. See takes().
//
// Threads: safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/owner_process.hpp"
#include "dovetail/error.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "storage/database.hpp"
#include "storage/queue_producer.hpp"

namespace dovetail::queue {

class GroupCommit {
 public:
  enum class Outcome {
    stored,      // durable
    not_stored,  // rolled back, or never sent: store it alone
    in_doubt,    // may be stored: store it alone, and expect to find it
  };

  /// Log events and metrics begin with the name of the queue.
  GroupCommit(storage::Database& database, storage::QueueProducer& producer, std::string queue,
              Logger log, Metrics metrics);
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  /// False for a message that its caller stores alone: the engine does not use groups, the message
  /// is large, or it has an id or a unique key that another transaction may have inserted.
  [[nodiscard]] bool takes(const storage::NewMessage& message) const;

  /// Stores a message that it takes(). Throws Error when the database gave no answer for so long
  /// that another attempt is too late.
  [[nodiscard]] Outcome store(const storage::NewMessage& message);

 private:
  struct Member;
  using Members = std::vector<Member*>;
  /// A failure of the database, after which another attempt may succeed; null: none.
  using Trouble = std::shared_ptr<const Error>;

  /// Returns when the caller leads, or when its message has an outcome.
  void enter(Member& member);
  /// Lets a caller that has waited long enough lead, in addition to the current leaders.
  bool lead_out_of_turn(Member& member);
  void lead(Member& leader);
  void write(Members& group);
  void take_waiting(Members& group);
  /// Lets the next caller lead. After `trouble`, all waiting callers store their messages alone.
  void pass_on(const Trouble& trouble, bool slow);
  void note_stored(std::size_t size) const;
  void note_failed(const Error& error, std::size_t size) const;

  storage::Database& database_;
  storage::QueueProducer& producer_;
  const std::string queue_;
  const storage::GroupCommitOptions options_;
  const Logger log_;
  const Metrics metrics_;
  const core::OwnerProcess process_;
  std::mutex mutex_;
  std::size_t under_way_ = 0;
  bool is_slow_ = false;  // a commit takes so long that waiting for one does not pay
  std::deque<Member*> waiting_;
};

}  // namespace dovetail::queue
