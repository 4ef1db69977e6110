// The messages of one queue as the work of a dispatcher.
#pragma once

#include "runtime/invocation.hpp"
#include "runtime/run_book.hpp"
#include "runtime/work_source.hpp"

namespace dovetail::runtime {

class QueueSource final : public WorkSource {
 public:
  explicit QueueSource(QueueScope scope) : scope_(std::move(scope)) {}

  [[nodiscard]] OwnerToken owner() const override { return scope_.owner; }
  WorkResult settle_and_claim(const WorkRequest& request) override;
  std::vector<MessageId> renew(std::span<const Claim> claims, std::chrono::milliseconds lease,
                               const std::stop_token& stop) override;
  void reset_lost_leases(std::span<const MessageId> ids, const std::stop_token& stop) override;
  void uncharge(std::span<const MessageId> ids, const std::stop_token& stop) override;
  std::optional<storage::Settlement> deliver(Delivery& delivery) override;

 private:
  class Scans;
  class Runs;

  WorkResult settle_then_claim(const WorkRequest& request);
  WorkResult settle_all(const WorkRequest& request);
  WorkResult settle_carefully(const WorkRequest& request);
  /// Returns no messages if there is no such run, or if the claim failed.
  storage::Claimed claim_run(const storage::ClaimOrder& order, const storage::RunOrder& run,
                             const std::stop_token& stop);
  storage::Claimed claim_singly(const storage::ClaimOrder& order, const std::stop_token& stop);
  void close_ended_runs(const std::stop_token& stop);

  const QueueScope scope_;
  RunBook runs_;
};

}  // namespace dovetail::runtime
