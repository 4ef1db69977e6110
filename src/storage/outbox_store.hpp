// The outbox as a backend stores it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dovetail/outbox.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// A checked message on its way into the store.
struct NewMessage {
  OutboxMessageId id;
  std::string_view topic;
  std::string_view payload;
  std::optional<std::string_view> correlation_id;
  std::optional<WallTime> due_at;
};

class OutboxStore {
 public:
  virtual ~OutboxStore() = default;

  /// Stores a message; one whose id is there already is left as it is.
  virtual void enqueue(WriteSession& session, const NewMessage& message) = 0;

  /// Stores all of them by the engine's bulk path. With `repeated`, some may be there already, and are left
  /// as they are.
  virtual void enqueue_many(WriteSession& session, std::span<const NewMessage> messages, bool repeated) = 0;

  /// Ordered by due time, then id.
  virtual std::vector<ClaimedMessage> claim(WriteSession& session, const ClaimRequest& request) = 0;

  virtual std::size_t ack(WriteSession& session, OwnerToken owner, std::span<const Claim> claims) = 0;

  virtual OutboxCounts counts(ReadSession& session) = 0;
};

}  // namespace dovetail::storage
