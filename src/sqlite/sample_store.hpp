#pragma once

#include "storage/sample_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class SampleStore final : public storage::SampleStore {
 public:
  explicit SampleStore(const storage::StatementTexts& texts) : texts_(texts) {}

  std::vector<storage::JoinCount> joins(storage::ReadSession& session, int most) override;
  std::vector<storage::JobSuccess> jobs(storage::ReadSession& session, int most) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::sqlite
