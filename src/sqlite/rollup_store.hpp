#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "storage/rollup_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class RollupStore final : public storage::RollupStore {
 public:
  RollupStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

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
  std::shared_ptr<Clock> clock_;
};

}  // namespace dovetail::sqlite
