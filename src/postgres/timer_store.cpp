#include "postgres/timer_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {

bool TimerStore::cancel(storage::WriteSession& session, TimerId timer) {
  Params params;
  params.add(timer.uuid());
  return WriteSession::of(session).run(texts_, sql::timer_cancel, params).boolean(0, 0);
}

bool TimerStore::reschedule(storage::WriteSession& session, TimerId timer,
                            const storage::NewTime& time) {
  Params params;
  params.add(timer.uuid()).add(time.due_at);
  params.add(time.delay ? std::optional<std::int64_t>{time.delay->count()} : std::nullopt);
  return WriteSession::of(session).run(texts_, sql::timer_reschedule, params).boolean(0, 0);
}

bool TimerStore::any_known(storage::WriteSession& session, std::span<const Uuid> ids) {
  Params params;
  params.add(ids);
  return WriteSession::of(session).run(texts_, sql::timer_any_known, params).boolean(0, 0);
}

int TimerStore::backlog(storage::ReadSession& session, int most) {
  Params params;
  params.add(std::int32_t{most});
  return static_cast<int>(
      ReadSession::of(session).run(texts_, sql::timer_backlog, params).integer(0, 0));
}

storage::NextDue TimerStore::next_due(storage::ReadSession& session) {
  using Column = sql::columns::schedule_next_due;
  const auto result = ReadSession::of(session).run(texts_, sql::schedule_next_due, {});
  const auto column = [&](int index) -> std::optional<std::chrono::microseconds> {
    if (result.is_null(0, index)) return std::nullopt;
    return std::chrono::microseconds{result.integer(0, index)};
  };
  return {column(Column::timers), column(Column::jobs)};
}

std::vector<Timer> TimerStore::list(storage::ReadSession& session,
                                    std::optional<std::string_view> topic, const TimerPage& page) {
  using Column = sql::columns::timer_list;
  Params params;
  params.add(page.after_time).add(page.after_id.uuid()).add(topic).add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql::timer_list, params);
  std::vector<Timer> timers;
  timers.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    Timer timer;
    timer.id = TimerId{result.uuid(row, Column::id)};
    timer.topic = result.text(row, Column::topic);
    timer.correlation_id = result.text_or_null(row, Column::correlation_id);
    timer.unique_key = result.text_or_null(row, Column::unique_key);
    timer.created_at = result.time(row, Column::created_at);
    timer.next_attempt_at = result.time(row, Column::ready_at);
    timer.due_at = result.time_or_null(row, Column::due_at).value_or(*timer.next_attempt_at);
    timer.attempts = static_cast<int>(result.integer(row, Column::attempts));
    timer.last_error = result.text_or_null(row, Column::last_error);
    timer.status =
        result.boolean(row, Column::leased) ? MessageStatus::in_progress : MessageStatus::ready;
    timers.push_back(std::move(timer));
  }
  return timers;
}

}  // namespace dovetail::postgres
