#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "storage/outbox_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class OutboxStore final : public storage::OutboxStore {
 public:
  OutboxStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

  void enqueue(storage::WriteSession& session, const storage::NewMessage& message) override;
  void enqueue_many(storage::WriteSession& session, std::span<const storage::NewMessage> messages,
                    bool repeated) override;
  std::vector<ClaimedMessage> claim(storage::WriteSession& session, const ClaimRequest& request) override;
  std::size_t ack(storage::WriteSession& session, OwnerToken owner, std::span<const Claim> claims) override;
  OutboxCounts counts(storage::ReadSession& session) override;

 private:
  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
};

}  // namespace dovetail::sqlite
