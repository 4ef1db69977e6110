#include "postgres/glance_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {
namespace {

void add_topics(Params& params, const std::optional<std::vector<std::string>>& topics) {
  if (!topics) {
    params.add(nullptr);
    return;
  }
  const std::vector<std::optional<std::string_view>> views(topics->begin(), topics->end());
  params.add(std::span<const std::optional<std::string_view>>{views});
}

std::optional<std::chrono::microseconds> time_of(const Result& result, int column) {
  if (result.is_null(0, column)) return std::nullopt;
  return std::chrono::microseconds{result.integer(0, column)};
}

}  // namespace

storage::Glance GlanceStore::look(storage::ReadSession& session,
                                  const storage::GlanceTopics& topics) {
  auto& core = ReadSession::of(session);
  const auto any = core.run_planned_anew(texts_, sql::glance_any, {});
  using Any = sql::columns::glance_any;
  storage::Glance seen{.jobs = time_of(any, Any::jobs), .events = time_of(any, Any::events)};
  if (any.is_null(0, Any::outbox) && any.is_null(0, Any::inbox) && any.is_null(0, Any::timers)) {
    return seen;
  }
  Params params;
  add_topics(params, topics.outbox);
  add_topics(params, topics.inbox);
  const auto due = core.run_planned_anew(texts_, sql::glance, params);
  using Column = sql::columns::glance;
  seen.outbox = time_of(due, Column::outbox);
  seen.inbox = time_of(due, Column::inbox);
  seen.timers = time_of(due, Column::timers);
  return seen;
}

}  // namespace dovetail::postgres
