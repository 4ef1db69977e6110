#include "postgres/glance_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {

storage::Glance GlanceStore::look(storage::ReadSession& session) {
  using Column = sql::columns::glance;
  const auto result = ReadSession::of(session).run_planned_anew(texts_, sql::glance, {});
  const auto column = [&](int index) -> std::optional<std::chrono::microseconds> {
    if (result.is_null(0, index)) return std::nullopt;
    return std::chrono::microseconds{result.integer(0, index)};
  };
  return {column(Column::outbox), column(Column::inbox), column(Column::timers),
          column(Column::jobs)};
}

}  // namespace dovetail::postgres
