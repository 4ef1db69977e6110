// The streams of one queue, in one transaction: their leases and their next messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sqlite/queue_context.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::sqlite {

class QueueStreams {
 public:
  QueueStreams(const QueueContext& context, Connection& connection)
      : context_(context), connection_(connection), now_(context.now()) {}

  struct ClaimedRow {
    std::int64_t seq;
    int attempts;
    std::string stream;
  };
  /// The row of a claim, if the owner still holds the lease of its stream.
  std::optional<ClaimedRow> find(OwnerToken owner, const Claim& claim);

  /// Marks the message as done. Returns its stream when the claim still held. settled() must
  /// follow.
  std::optional<std::string> ack(OwnerToken owner, const Claim& claim, bool keep);
  /// Abandons, fails or snoozes a message. Returns whether the claim still held.
  bool settle(OwnerToken owner, const storage::Settlement& settlement);
  bool renew(OwnerToken owner, const Claim& claim, std::chrono::microseconds lease);
  /// Notes that `count` messages of a leased stream were settled. The lease ends with the last
  /// message.
  void settled(std::string_view stream, std::int64_t count);

  /// Ends up to `most` leases that have expired, and charges the first message of each.
  std::size_t reap(std::int64_t most);
  /// Makes the first message of a stream claimable, unless the stream is leased or blocked.
  void ticket(std::string_view stream);

  /// Returns whether the stream was blocked.
  bool resume(std::string_view stream);
  bool skip(std::string_view stream);

  /// Handles a message whose last attempt has failed, and its stream, as `failed` specifies.
  void give_up(const ClaimedRow& row, const storage::Failed& failed, int charge,
               std::optional<OwnerToken> by);

 private:
  void release(std::string_view stream);
  void unblock(std::string_view stream);
  void charge_lost(std::int64_t seq, OwnerToken owner);
  void abandon(const ClaimedRow& row, const storage::Settlement& settlement, OwnerToken owner);

  const QueueContext& context_;
  Connection& connection_;
  WallTime now_;
};

}  // namespace dovetail::sqlite
