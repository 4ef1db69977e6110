#pragma once

#include "storage/rollup_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class RollupStore final : public storage::RollupStore {
 public:
  explicit RollupStore(const storage::StatementTexts& texts) : texts_(texts) {}

  bool flush(storage::WriteSession& session, const storage::RollupFlush& flush) override;
  std::size_t fold(storage::WriteSession& session, std::chrono::microseconds age) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;
  std::size_t purge_sources(storage::WriteSession& session, std::chrono::microseconds age,
                            int most) override;
  std::vector<HistoryBucket> list(storage::ReadSession& session,
                                  const HistoryRequest& request) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
