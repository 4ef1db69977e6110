#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "storage/glance_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class GlanceStore final : public storage::GlanceStore {
 public:
  GlanceStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

  storage::Glance look(storage::ReadSession& session, const storage::GlanceTopics& topics) override;

 private:
  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
};

}  // namespace dovetail::sqlite
