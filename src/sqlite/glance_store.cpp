#include "sqlite/glance_store.hpp"

#include <set>

#include "core/headers.hpp"
#include "core/text.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

std::optional<std::string> json_of(const std::optional<std::vector<std::string>>& topics) {
  if (!topics) return std::nullopt;
  return core::to_json(std::set<std::string, std::less<>>{topics->begin(), topics->end()});
}

std::optional<std::chrono::microseconds> time_of(Cursor& cursor, int column) {
  if (cursor.is_null(column)) return std::nullopt;
  return std::chrono::microseconds{cursor.integer(column)};
}

}  // namespace

storage::Glance GlanceStore::look(storage::ReadSession& session,
                                  const storage::GlanceTopics& topics) {
  storage::Glance seen;
  const auto now = clock_->wall();
  {
    using Any = sql::columns::glance_any;
    auto any = ReadSession::of(session).run(texts_, sql::glance_any);
    any.bind(now).step();
    seen.jobs = time_of(any, Any::jobs);
    seen.events = time_of(any, Any::events);
    if (any.is_null(Any::outbox) && any.is_null(Any::inbox) && any.is_null(Any::timers)) {
      return seen;
    }
  }
  using Column = sql::columns::glance;
  const auto outbox = json_of(topics.outbox);
  const auto inbox = json_of(topics.inbox);
  auto due = ReadSession::of(session).run(texts_, sql::glance);
  due.bind(now).bind(core::view_of(outbox)).bind(core::view_of(inbox)).step();
  seen.outbox = time_of(due, Column::outbox);
  seen.inbox = time_of(due, Column::inbox);
  seen.timers = time_of(due, Column::timers);
  return seen;
}

}  // namespace dovetail::sqlite
