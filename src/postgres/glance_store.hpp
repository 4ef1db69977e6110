#pragma once

#include "storage/glance_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class GlanceStore final : public storage::GlanceStore {
 public:
  explicit GlanceStore(const storage::StatementTexts& texts) : texts_(texts) {}

  storage::Glance look(storage::ReadSession& session, const storage::GlanceTopics& topics) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
