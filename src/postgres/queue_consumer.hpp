// Claims messages of one queue in PostgreSQL, and settles the claims.
#pragma once

#include "postgres/session.hpp"
#include "postgres/sql.hpp"
#include "storage/queue_consumer.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class QueueConsumer final : public storage::QueueConsumer {
 public:
  QueueConsumer(const storage::StatementTexts& texts, const sql::Queue& queue)
      : texts_(texts), sql_(queue) {}

  storage::Claimed claim(storage::WriteSession& session, const storage::ClaimOrder& order) override;
  [[nodiscard]] bool has_runs() const override { return true; }
  storage::Claimed claim_run(storage::WriteSession& session, const storage::ClaimOrder& order,
                             const storage::RunOrder& run) override;
  void close_runs(storage::WriteSession& session, OwnerToken owner,
                  std::span<const std::int64_t> runs) override;
  /// Claims of this engine block no other writer.
  storage::LookAhead look_ahead(storage::ReadSession& /*session*/,
                                const storage::ClaimOrder& order) override {
    return {.passed = order.after == nullptr ? storage::QueueMarks{} : *order.after};
  }
  storage::WorkAnswer work(storage::WriteSession& session,
                           const storage::WorkOrder& order) override;
  std::vector<Claim> settleable(storage::WriteSession& session, OwnerToken owner,
                                std::span<const Claim> claims) override;
  void limit_lock_waits(storage::WriteSession& session,
                        std::chrono::milliseconds patience) override;
  void absolve(storage::WriteSession& session, std::span<const MessageId> ids) override;
  void uncharge(storage::WriteSession& session, std::span<const MessageId> ids) override;
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
                           int most, std::optional<int> look_at) override;
  std::size_t unpark(storage::WriteSession& session, std::optional<std::string_view> topic,
                     int most) override;

 private:
  using Calls = std::vector<SessionCore::Call>;
  std::size_t add_settlements(Calls& calls, const storage::WorkOrder& order) const;
  void add_acks(Calls& calls, const storage::WorkOrder& order, std::vector<Claim> acks) const;
  void add_stream_acks(Calls& calls, const storage::WorkOrder& order,
                       std::vector<Claim> acks) const;
  void add_run_acks(Calls& calls, const storage::WorkOrder& order,
                    std::span<const Claim> acks) const;
  /// Claims of runs get leases of their own. Otherwise only acks know them. `wait`: also if another
  /// transaction has locked the message.
  void add_spreads(Calls& calls, OwnerToken owner, std::span<const Claim> claims, bool wait) const;
  void spread(storage::WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
              bool wait = true) const;
  [[nodiscard]] static Params close_params(OwnerToken owner, std::span<const std::int64_t> runs);
  [[nodiscard]] SessionCore::Call call_of(OwnerToken owner, const storage::Settlement& each) const;

  const storage::StatementTexts& texts_;
  const sql::Queue& sql_;
};

}  // namespace dovetail::postgres
