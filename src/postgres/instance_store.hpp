#pragma once

#include "storage/instance_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class InstanceStore final : public storage::InstanceStore {
 public:
  explicit InstanceStore(const storage::StatementTexts& texts) : texts_(texts) {}

  WallTime beat(storage::WriteSession& session, const storage::InstanceEntry& entry,
                InstanceState state) override;
  void remove(storage::WriteSession& session, InstanceId id) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;
  std::vector<InstanceInfo> list(storage::ReadSession& session, int most) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
