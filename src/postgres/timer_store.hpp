#pragma once

#include "storage/statement.hpp"
#include "storage/timer_store.hpp"

namespace dovetail::postgres {

class TimerStore final : public storage::TimerStore {
 public:
  explicit TimerStore(const storage::StatementTexts& texts) : texts_(texts) {}

  bool cancel(storage::WriteSession& session, TimerId timer) override;
  bool reschedule(storage::WriteSession& session, TimerId timer,
                  const storage::NewTime& time) override;
  bool any_known(storage::WriteSession& session, std::span<const Uuid> ids) override;
  int backlog(storage::ReadSession& session, int most) override;
  storage::NextDue next_due(storage::ReadSession& session) override;
  std::vector<Timer> list(storage::ReadSession& session, std::optional<std::string_view> topic,
                          const TimerPage& page) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
