#pragma once

#include "storage/statement.hpp"
#include "storage/work_store.hpp"

namespace dovetail::postgres {

class WorkStore final : public storage::WorkStore {
 public:
  explicit WorkStore(const storage::StatementTexts& texts) : texts_(texts) {}

  [[nodiscard]] bool is_single_statement() const override { return true; }
  WorkResult process(storage::WriteSession& session, const storage::WorkBatchOrder& order) override;
  bool leave(storage::WriteSession& session, InstanceId instance) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
