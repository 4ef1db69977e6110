#pragma once

#include "storage/backlog_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class BacklogStore final : public storage::BacklogStore {
 public:
  explicit BacklogStore(const storage::StatementTexts& texts) : texts_(texts) {}

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
};

}  // namespace dovetail::postgres
