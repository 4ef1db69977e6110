#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "storage/statement.hpp"
#include "storage/timer_store.hpp"

namespace dovetail::sqlite {

class TimerStore final : public storage::TimerStore {
 public:
  TimerStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

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
  std::shared_ptr<Clock> clock_;
};

}  // namespace dovetail::sqlite
