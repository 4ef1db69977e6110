#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "storage/backlog_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class BacklogStore final : public storage::BacklogStore {
 public:
  BacklogStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

  bool is_known(storage::ReadSession& session) override;
  void add(storage::WriteSession& session, std::string_view queue,
           const BacklogBucket& bucket) override;
  std::size_t fold(storage::WriteSession& session, std::chrono::microseconds age) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;
  std::vector<BacklogBucket> list(storage::ReadSession& session,
                                  const HistoryRequest& request) override;

 private:
  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
};

}  // namespace dovetail::sqlite
