// Settles claims of one owner in one transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sqlite/queue_context.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::sqlite {

class QueueSettlement {
 public:
  QueueSettlement(const QueueContext& context, Connection& connection, OwnerToken owner)
      : context_(context), connection_(connection), owner_(owner), now_(context.now()) {}

  struct ClaimedRow {
    std::int64_t seq;
    int attempts;
  };
  /// The row of a claim that still holds.
  std::optional<ClaimedRow> find(const Claim& claim);

  /// Acks the claims that still hold, and tells the watchers. Returns the number of these claims.
  std::size_t ack(std::span<const Claim> claims, bool keep);
  /// Abandons, fails or snoozes a claim. Returns whether the claim still held.
  bool settle(const storage::Settlement& settlement);
  bool renew(const Claim& claim, std::chrono::microseconds lease);
  bool add_stages(const Claim& claim, Stages stages);

 private:
  /// Acks claims of messages that belong to no stream.
  std::size_t ack_single(std::span<const Claim> claims, bool keep);
  std::size_t ack_of_streams(std::span<const Claim> claims, bool keep);
  std::size_t ack_unwatched(std::span<const Claim> claims, bool keep);
  /// Acks claims whose rows follow one another.
  std::size_t ack_run(std::span<const Claim> run, bool keep);
  std::size_t ack_scattered(std::span<const Claim> claims, bool keep);
  void abandon(const ClaimedRow& row, const storage::Settlement& settlement);

  const QueueContext& context_;
  Connection& connection_;
  OwnerToken owner_;
  WallTime now_;
};

}  // namespace dovetail::sqlite
