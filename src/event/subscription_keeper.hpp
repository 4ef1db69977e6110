// Renews the leases of all parts that this process holds, notices paused subscriptions, and
// measures how far subscriptions are behind.
//
// Threads: as SteppedService.
#pragma once

#include <mutex>
#include <string>

#include "component/renews.hpp"
#include "component/stepped_service.hpp"
#include "event/scope.hpp"

namespace dovetail::event {

class SubscriptionKeeper final : public component::SteppedService, public component::Renews {
 public:
  SubscriptionKeeper(std::shared_ptr<Scope> scope, std::shared_ptr<Holdings> holdings)
      : SteppedService(scope->database.clock()),
        scope_(std::move(scope)),
        holdings_(std::move(holdings)) {}
  ~SubscriptionKeeper() override { SubscriptionKeeper::stop(MonoTime{}); }

  [[nodiscard]] std::string name() const override { return "subscription leases"; }
  [[nodiscard]] std::size_t connections() const override { return 1; }
  [[nodiscard]] bool outlives_handlers() const override { return true; }
  MonoTime step(const std::stop_token& stop) override;
  [[nodiscard]] component::ServiceHealth health() const override;
  [[nodiscard]] component::ServiceHealth renewals() const override { return health(); }

 private:
  void subscribe() override {
    holdings_->on_add([this] { wake_by(clock().mono()); });
  }
  void unsubscribe() override { holdings_->on_add({}); }
  void renew_due(const std::stop_token& stop);
  /// Gives up leases that were not renewed in time.
  void lose_expired();
  void look_at_subscriptions(const std::stop_token& stop);
  [[nodiscard]] MonoTime next_renewal() const;

  const std::shared_ptr<Scope> scope_;
  const std::shared_ptr<Holdings> holdings_;
  MonoTime next_look_ = MonoTime::min();
  mutable std::mutex mutex_;
  component::ServiceHealth health_;
};

}  // namespace dovetail::event
