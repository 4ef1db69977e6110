// Claims messages of one queue in SQLite, and settles the claims.
#pragma once

#include "sqlite/claim_filter.hpp"
#include "sqlite/queue_context.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::sqlite {

class QueueConsumer final : public storage::QueueConsumer {
 public:
  explicit QueueConsumer(const QueueContext& context) : context_(context) {}

  storage::Claimed claim(storage::WriteSession& session, const storage::ClaimOrder& order) override;
  storage::LookAhead look_ahead(storage::ReadSession& session,
                                const storage::ClaimOrder& order) override;
  storage::WorkAnswer work(storage::WriteSession& session,
                           const storage::WorkOrder& order) override;
  std::vector<Claim> settleable(storage::WriteSession& session, OwnerToken owner,
                                std::span<const Claim> claims) override;
  void limit_lock_waits(storage::WriteSession& /*session*/,
                        std::chrono::milliseconds /*patience*/) override {}
  void absolve(storage::WriteSession& session, std::span<const MessageId> ids) override;
  void uncharge(storage::WriteSession& session, std::span<const MessageId> ids) override;
  /// The same for messages that the filter takes.
  storage::Claimed claim(storage::WriteSession& session, const storage::ClaimOrder& order,
                         const ClaimFilter& filter);
  std::size_t add_stages(storage::WriteSession& session, OwnerToken owner,
                         std::span<const Claim> claims, Stages stages) override;
  std::size_t ack(storage::WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                  bool keep) override;
  std::size_t abandon(storage::WriteSession& session, OwnerToken owner,
                      std::span<const Claim> claims, const storage::Failed& failed,
                      std::optional<std::chrono::microseconds> delay, int max_attempts) override;
  std::size_t fail(storage::WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                   const storage::Failed& failed, int charge) override;
  std::size_t snooze(storage::WriteSession& session, OwnerToken owner,
                     std::span<const Claim> claims,
                     std::optional<std::chrono::microseconds> delay) override;
  std::vector<MessageId> renew(storage::WriteSession& session, OwnerToken owner,
                               std::span<const Claim> claims,
                               std::chrono::microseconds lease) override;
  std::size_t reap_expired(storage::WriteSession& session, std::optional<int> max_attempts,
                           int most, std::optional<int> scan_limit) override;
  std::size_t unpark(storage::WriteSession& session, std::optional<std::string_view> topic,
                     int most) override;

 private:
  const QueueContext& context_;
};

}  // namespace dovetail::sqlite
