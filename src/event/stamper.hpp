// Gives positions to committed events. Of several processes, one stamps at a time.
//
// Threads: as SteppedService.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "component/stepped_service.hpp"
#include "event/scope.hpp"

namespace dovetail::event {

class Stamper final : public component::SteppedService {
 public:
  explicit Stamper(std::shared_ptr<Scope> scope)
      : SteppedService(scope->database.clock()), scope_(std::move(scope)) {}
  ~Stamper() override { Stamper::stop(MonoTime{}); }

  [[nodiscard]] std::string name() const override { return "stamper"; }
  [[nodiscard]] std::size_t connections() const override { return 1; }
  MonoTime step(const std::stop_token& stop) override;
  [[nodiscard]] component::ServiceHealth health() const override;

 private:
  void subscribe() override;
  void unsubscribe() override;
  /// Returns the pause until the next stamp.
  MonoDuration stamp(const std::stop_token& stop);

  const std::shared_ptr<Scope> scope_;
  mutable std::mutex mutex_;
  component::ServiceHealth health_;
  std::optional<storage::Doorbell::Subscription> bell_;
  std::optional<storage::Listener::Subscription> hearing_;
};

}  // namespace dovetail::event
