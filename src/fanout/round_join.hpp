// The join of a round. Its steps are the message of the round and the messages of its slices.
//
// While the message of the round is in progress, the join cannot end, and each page of slices adds
// its steps. The id of the join is derived from the message, so that a round that is retried
// continues its join.
#pragma once

#include <span>

#include "dovetail/fanout.hpp"
#include "storage/database.hpp"
#include "storage/fanout_store.hpp"

namespace dovetail {

struct Fanout::RoundJoin {
  RoundJoin(storage::Database& database, const Outbox& outbox, const Joins& joins,
            const FanoutPlan& plan, MessageId round);

  /// Adds messages that this transaction has enqueued to the join, as its steps. The first call of
  /// a round also creates the join and the message that waits for it.
  void attach(storage::WriteSession& session, std::span<const storage::EnqueuedSlice> slices) const;

 private:
  void start(storage::WriteSession& session) const;

  storage::Database& database_;
  const QueueOptions& options_;
  MessageId round_;
  JoinId join_;
  std::string grouping_key_;
  EnqueueRequest wait_;
};

}  // namespace dovetail
