// The messages of one queue as the work of a dispatcher.
#pragma once

#include "runtime/invocation.hpp"
#include "runtime/work_source.hpp"

namespace dovetail::runtime {

class QueueSource final : public WorkSource {
 public:
  explicit QueueSource(QueueScope scope) : scope_(std::move(scope)) {}

  [[nodiscard]] OwnerToken owner() const override { return scope_.owner; }
  WorkResult settle_and_claim(const WorkRequest& request) override;
  std::vector<MessageId> renew(std::span<const Claim> claims, std::chrono::milliseconds lease,
                               const std::stop_token& stop) override;
  void absolve(std::span<const MessageId> ids, const std::stop_token& stop) override;
  std::optional<storage::Settlement> deliver(Delivery& delivery) override {
    return invoke(scope_, delivery);
  }

 private:
  class Scans;

  WorkResult settle_then_claim(const WorkRequest& request);
  WorkResult settle_all(const WorkRequest& request);
  WorkResult settle_carefully(const WorkRequest& request);

  const QueueScope scope_;
};

}  // namespace dovetail::runtime
