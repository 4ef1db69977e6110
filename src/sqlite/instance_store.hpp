#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "storage/instance_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class InstanceStore final : public storage::InstanceStore {
 public:
  InstanceStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

  WallTime beat(storage::WriteSession& session, const storage::InstanceEntry& entry,
                InstanceState state) override;
  void remove(storage::WriteSession& session, InstanceId id) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;
  std::vector<InstanceInfo> list(storage::ReadSession& session, int most) override;

 private:
  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
};

}  // namespace dovetail::sqlite
