// The health checks of a Platform.
#pragma once

#include <functional>
#include <memory>

#include "observe/health_source.hpp"
#include "runtime/runtime.hpp"

namespace dovetail::runtime {

class PlatformHealth final : public observe::HealthSource {
 public:
  /// `node` throws InvalidOperation after the database has left its group. `runtime` is null for a
  /// database of a group.
  PlatformHealth(std::function<std::shared_ptr<Node>()> node, Runtime* runtime)
      : node_(std::move(node)), runtime_(runtime) {}

  void require_process() const override;
  [[nodiscard]] int phase() const override;
  [[nodiscard]] HealthCheck live() override;
  [[nodiscard]] std::vector<HealthCheck> quick(Scope scope) override;
  void read(Scope scope, const std::stop_token& stop, observe::HealthRecorder& recorder) override;

 private:
  const std::function<std::shared_ptr<Node>()> node_;
  Runtime* const runtime_;
};

}  // namespace dovetail::runtime
