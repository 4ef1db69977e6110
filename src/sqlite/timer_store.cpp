#include "sqlite/timer_store.hpp"

#include <algorithm>

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {

bool TimerStore::cancel(storage::WriteSession& session, TimerId timer) {
  auto cursor = WriteSession::of(session).run(texts_, sql::timer_cancel);
  return cursor.bind(timer.uuid()).bind(clock_->wall()).run() == 1;
}

bool TimerStore::reschedule(storage::WriteSession& session, TimerId timer,
                            const storage::NewTime& time) {
  auto cursor = WriteSession::of(session).run(texts_, sql::timer_reschedule);
  const auto now = clock_->wall();
  const auto due_at = time.delay ? std::optional<WallTime>{now + *time.delay} : time.due_at;
  return cursor.bind(timer.uuid()).bind(due_at).bind(now).run() == 1;
}

bool TimerStore::any_known(storage::WriteSession& session, std::span<const Uuid> ids) {
  auto& connection = WriteSession::of(session);
  return std::ranges::any_of(ids, [&](const Uuid& id) {
    return connection.run(texts_, sql::timer_any_known).bind(id).step();
  });
}

int TimerStore::backlog(storage::ReadSession& session, int most) {
  auto cursor = ReadSession::of(session).run(texts_, sql::timer_backlog);
  cursor.bind(std::int64_t{most}).bind(clock_->wall()).step();
  return static_cast<int>(cursor.integer(0));
}

storage::NextDue TimerStore::next_due(storage::ReadSession& session) {
  using Column = sql::columns::schedule_next_due;
  auto cursor = ReadSession::of(session).run(texts_, sql::schedule_next_due);
  cursor.bind(clock_->wall()).step();
  const auto column = [&](int index) -> std::optional<std::chrono::microseconds> {
    if (cursor.is_null(index)) return std::nullopt;
    return std::chrono::microseconds{cursor.integer(index)};
  };
  return {column(Column::timers), column(Column::jobs)};
}

std::vector<Timer> TimerStore::list(storage::ReadSession& session,
                                    std::optional<std::string_view> topic, const TimerPage& page) {
  using Column = sql::columns::timer_list;
  auto cursor = ReadSession::of(session).run(texts_, sql::timer_list);
  cursor.bind(page.after_time).bind(page.after_id.uuid()).bind(topic).bind(std::int64_t{page.size});
  std::vector<Timer> timers;
  while (cursor.step()) {
    Timer timer;
    timer.id = TimerId{cursor.uuid(Column::id)};
    timer.topic = cursor.text(Column::topic);
    timer.correlation_id = cursor.text_or_null(Column::correlation_id);
    timer.unique_key = cursor.text_or_null(Column::unique_key);
    timer.created_at = cursor.time(Column::created_at);
    timer.next_attempt_at = cursor.time(Column::ready_at);
    timer.due_at = cursor.time_or_null(Column::due_at).value_or(*timer.next_attempt_at);
    timer.attempts = static_cast<int>(cursor.integer(Column::attempts));
    timer.last_error = cursor.text_or_null(Column::last_error);
    timer.status =
        cursor.integer(Column::leased) != 0 ? MessageStatus::in_progress : MessageStatus::ready;
    timers.push_back(std::move(timer));
  }
  return timers;
}

}  // namespace dovetail::sqlite
