#include "sqlite/glance_store.hpp"

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {

storage::Glance GlanceStore::look(storage::ReadSession& session) {
  using Column = sql::columns::glance;
  auto cursor = ReadSession::of(session).run(texts_, sql::glance);
  cursor.bind(clock_->wall()).step();
  const auto column = [&](int index) -> std::optional<std::chrono::microseconds> {
    if (cursor.is_null(index)) return std::nullopt;
    return std::chrono::microseconds{cursor.integer(index)};
  };
  return {column(Column::outbox), column(Column::inbox), column(Column::timers),
          column(Column::jobs)};
}

}  // namespace dovetail::sqlite
