// Turns claimed messages into deliveries, and refuses messages that no handler may get.
#pragma once

#include <vector>

#include "runtime/invocation.hpp"
#include "runtime/ledger.hpp"

namespace dovetail::runtime {

/// The messages of one claim.
struct Arrivals {
  std::vector<DeliveryPtr> deliveries;
  std::vector<Finished> refused;
};

class Intake {
 public:
  Intake(const HandlerRegistry& handlers, const QueueScope& scope, std::chrono::milliseconds lease)
      : handlers_(handlers), scope_(scope), lease_(lease) {}

  /// `sent_at` is the time when the claim was sent. Leases count from it.
  [[nodiscard]] Arrivals take(Subscription& subscription,
                              std::vector<storage::ClaimedEntry> entries, MonoTime sent_at) const;

 private:
  [[nodiscard]] std::optional<storage::Settlement> refusal(const storage::ClaimedEntry& entry,
                                                           const RegisteredHandler* handler) const;
  [[nodiscard]] DeliveryPtr delivery_of(storage::ClaimedEntry&& entry, MonoTime sent_at) const;
  void report_unknown_topic(const Message& message) const;

  const HandlerRegistry& handlers_;
  const QueueScope& scope_;
  const std::chrono::milliseconds lease_;
};

}  // namespace dovetail::runtime
