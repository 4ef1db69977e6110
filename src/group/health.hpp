// The health checks of a group. The group's own calls tell which databases fail. The oldest due
// messages are those of a sample, which reads the databases that are open.
#pragma once

#include <functional>

#include "core/owner_process.hpp"
#include "dovetail/group.hpp"
#include "observe/health_source.hpp"
#include "observe/sampler.hpp"
#include "runtime/run_state.hpp"
#include "runtime/supervisor.hpp"

namespace dovetail::group {

class GroupHealth final : public observe::HealthSource {
 public:
  struct Parts {
    const core::OwnerProcess& process;
    const std::atomic<runtime::RunState>& state;
    const runtime::Supervisor& supervisor;
    const HealthOptions& options;
    std::function<GroupStatus()> status;
    observe::Sampler& sampler;
  };
  explicit GroupHealth(Parts parts) : parts_(std::move(parts)) {}

  void require_process() const override { parts_.process.require(); }
  [[nodiscard]] int phase() const override { return static_cast<int>(parts_.state.load()); }
  [[nodiscard]] HealthCheck live() override { return parts_.supervisor.live(); }
  [[nodiscard]] std::vector<HealthCheck> quick(Scope scope) override;
  void read(Scope scope, const std::stop_token& stop, observe::HealthRecorder& recorder) override;

 private:
  const Parts parts_;
};

/// The oldest due message of a queue among the databases of a sample.
[[nodiscard]] HealthResult check_oldest_due(const Sample& sample, std::string_view queue,
                                            const HealthOptions& options);

/// The checks of a group's status: `databases`, `discovery`, and one for each failing database.
[[nodiscard]] std::vector<HealthCheck> checks_of(const GroupStatus& status,
                                                 const HealthOptions& options,
                                                 observe::HealthSource::Scope scope);

}  // namespace dovetail::group
