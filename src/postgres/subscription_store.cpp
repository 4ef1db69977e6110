#include "postgres/subscription_store.hpp"

#include "core/headers.hpp"
#include "core/text.hpp"
#include "postgres/session.hpp"
#include "postgres/sql.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::postgres {
namespace {

using std::chrono::microseconds;

void add_filter(Params& params, const std::vector<std::string>& texts) {
  using Text = std::optional<std::string_view>;
  if (texts.empty()) {
    params.add(nullptr);
    return;
  }
  const std::vector<Text> views{texts.begin(), texts.end()};
  params.add(std::span<const Text>{views});
}

Params name_params(std::string_view name) {
  Params params;
  params.add(name);
  return params;
}

Params part_params(const storage::PartLease& part) {
  auto params = name_params(part.name);
  params.add(std::int32_t{part.part}).add(part.epoch);
  return params;
}

std::vector<std::string> texts_of(const Result& result, int row, int column) {
  return result.is_null(row, column) ? std::vector<std::string>{}
                                     : core::texts_from_json(result.bytes(row, column));
}

SubscriptionStatus read_status(const Result& result, int row) {
  using Column = sql::columns::subscription_list;
  SubscriptionStatus status{.name = result.text(row, Column::name),
                            .parts = static_cast<int>(result.integer(row, Column::parts)),
                            .types = texts_of(result, row, Column::types),
                            .prefixes = texts_of(result, row, Column::prefixes),
                            .on_failure = result.text(row, Column::on_failure),
                            .created_at = result.time(row, Column::created_at),
                            .paused_at = result.time_or_null(row, Column::paused_at),
                            .position = result.integer(row, Column::position),
                            .head = result.integer(row, Column::head),
                            .lag = result.integer(row, Column::lag),
                            .stopped_at = result.time_or_null(row, Column::stopped_at),
                            .attempts = static_cast<int>(result.integer(row, Column::attempts)),
                            .last_error = result.text_or_null(row, Column::last_error),
                            .held_parts = static_cast<int>(result.integer(row, Column::held_parts)),
                            .parked = result.integer(row, Column::parked)};
  if (!result.is_null(row, Column::next_parts))
    status.next_parts = static_cast<int>(result.integer(row, Column::next_parts));
  if (!result.is_null(row, Column::lag_time))
    status.lag_time = microseconds{result.integer(row, Column::lag_time)};
  return status;
}

SubscriptionPart read_part(const Result& result, int row) {
  using Column = sql::columns::subscription_parts;
  SubscriptionPart part{.part = static_cast<int>(result.integer(row, Column::part)),
                        .position = result.integer(row, Column::position),
                        .epoch = result.integer(row, Column::epoch),
                        .lease_until = result.time_or_null(row, Column::lease_until),
                        .attempts = static_cast<int>(result.integer(row, Column::attempts)),
                        .retry_at = result.time_or_null(row, Column::retry_at),
                        .stopped_at = result.time_or_null(row, Column::stopped_at),
                        .last_error = result.text_or_null(row, Column::last_error),
                        .moved_at = result.time(row, Column::moved_at)};
  if (!result.is_null(row, Column::owner_token))
    part.owner = OwnerToken{result.uuid(row, Column::owner_token)};
  return part;
}

ParkedEvent read_parked(const Result& result, int row) {
  using Column = sql::columns::subscription_parked;
  return {.position = result.integer(row, Column::position),
          .stream = result.text(row, Column::stream),
          .version = result.integer(row, Column::version),
          .kind = storage::parked_kind_of(result.bytes(row, Column::kind)),
          .attempts = static_cast<int>(result.integer(row, Column::attempts)),
          .error = result.text(row, Column::error),
          .parked_at = result.time(row, Column::parked_at),
          .resumed_at = result.time_or_null(row, Column::resumed_at)};
}

template <typename Read>
auto read_rows(const Result& result, Read read) {
  std::vector<decltype(read(result, 0))> all;
  all.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) all.push_back(read(result, row));
  return all;
}

}  // namespace

bool SubscriptionStore::create(storage::WriteSession& session,
                               const storage::SubscriptionOrder& order) {
  auto params = name_params(order.name);
  params.add(std::int32_t{order.parts});
  add_filter(params, order.types);
  add_filter(params, order.prefixes);
  params.add(order.start).add(order.on_failure);
  return WriteSession::of(session).run(texts_, sql::subscription_create, params).boolean(0, 0);
}

// --- leases

std::optional<storage::PartLease> SubscriptionStore::acquire(storage::WriteSession& session,
                                                             std::string_view name, int part,
                                                             OwnerToken owner, microseconds lease) {
  using Column = sql::columns::subscription_acquire;
  auto params = name_params(name);
  params.add(std::int32_t{part}).add(owner.uuid()).add(std::int64_t{lease.count()});
  const auto result = WriteSession::of(session).run(texts_, sql::subscription_acquire, params);
  if (result.rows() == 0) return std::nullopt;
  storage::PartLease held{.name = std::string{name},
                          .part = part,
                          .epoch = result.integer(0, Column::epoch),
                          .position = result.integer(0, Column::position),
                          .parts = static_cast<int>(result.integer(0, Column::parts)),
                          .attempts = static_cast<int>(result.integer(0, Column::attempts)),
                          .changes = result.integer(0, Column::changes)};
  if (!result.is_null(0, Column::drain_to)) held.drain_to = result.integer(0, Column::drain_to);
  if (!result.is_null(0, Column::retry_in))
    held.retry_in = microseconds{result.integer(0, Column::retry_in)};
  return held;
}

bool SubscriptionStore::renew(storage::WriteSession& session, const storage::PartLease& part,
                              microseconds lease) {
  auto params = part_params(part);
  params.add(std::int64_t{lease.count()});
  return WriteSession::of(session).run(texts_, sql::subscription_renew, params).boolean(0, 0);
}

bool SubscriptionStore::release(storage::WriteSession& session, const storage::PartLease& part) {
  return WriteSession::of(session)
      .run(texts_, sql::subscription_release, part_params(part))
      .boolean(0, 0);
}

// --- positions and failures

bool SubscriptionStore::advance(storage::WriteSession& session, const storage::PartLease& part,
                                storage::PartMove move) {
  auto params = part_params(part);
  params.add(move.from).add(move.to).add(move.durable);
  return WriteSession::of(session).run(texts_, sql::subscription_advance, params).boolean(0, 0);
}

std::optional<int> SubscriptionStore::fail(storage::WriteSession& session,
                                           const storage::PartLease& part, std::string_view error,
                                           microseconds retry_in, bool stop) {
  auto params = part_params(part);
  params.add(error).add(std::int64_t{retry_in.count()}).add(stop);
  const auto result = WriteSession::of(session).run(texts_, sql::subscription_fail, params);
  if (result.is_null(0, 0)) return std::nullopt;
  return static_cast<int>(result.integer(0, 0));
}

bool SubscriptionStore::park(storage::WriteSession& session, const storage::PartLease& part,
                             storage::PartMove move, ParkedKind kind, std::string_view error) {
  auto params = part_params(part);
  params.add(move.from).add(move.to).add(to_string(kind)).add(error);
  return WriteSession::of(session).run(texts_, sql::subscription_park, params).boolean(0, 0);
}

bool SubscriptionStore::move_parked(storage::WriteSession& session, const storage::PartLease& part,
                                    std::int64_t position, std::optional<std::int64_t> version) {
  auto params = part_params(part);
  params.add(position).add(version);
  return WriteSession::of(session).run(texts_, sql::subscription_move_parked, params).boolean(0, 0);
}

bool SubscriptionStore::fail_parked(storage::WriteSession& session, const storage::PartLease& part,
                                    std::int64_t position, std::int64_t failed,
                                    std::string_view error) {
  auto params = part_params(part);
  params.add(position).add(failed).add(error);
  return WriteSession::of(session).run(texts_, sql::subscription_fail_parked, params).boolean(0, 0);
}

std::vector<storage::SubscriptionChanges> SubscriptionStore::changes(
    storage::ReadSession& session) {
  using Column = sql::columns::subscription_changes;
  const auto result = ReadSession::of(session).run(texts_, sql::subscription_changes, {});
  std::vector<storage::SubscriptionChanges> all;
  all.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row)
    all.push_back({result.text(row, Column::name), result.integer(row, Column::changes)});
  return all;
}

// --- operation

std::vector<ParkedEvent> SubscriptionStore::parked(storage::ReadSession& session,
                                                   std::string_view name, int parts, int part) {
  auto params = name_params(name);
  params.add(std::int32_t{parts}).add(std::int32_t{part});
  const auto result = ReadSession::of(session).run(texts_, sql::subscription_parked, params);
  return read_rows(result, read_parked);
}

std::vector<SubscriptionStatus> SubscriptionStore::list(storage::ReadSession& session,
                                                        std::optional<std::string_view> name) {
  Params params;
  params.add(name);
  const auto result = ReadSession::of(session).run(texts_, sql::subscription_list, params);
  return read_rows(result, read_status);
}

std::vector<SubscriptionPart> SubscriptionStore::parts(storage::ReadSession& session,
                                                       std::string_view name) {
  const auto result =
      ReadSession::of(session).run(texts_, sql::subscription_parts, name_params(name));
  return read_rows(result, read_part);
}

bool SubscriptionStore::pause(storage::WriteSession& session, std::string_view name) {
  return WriteSession::of(session)
      .run(texts_, sql::subscription_pause, name_params(name))
      .boolean(0, 0);
}

bool SubscriptionStore::resume(storage::WriteSession& session, std::string_view name) {
  session.wakes_here(storage::queue_names::event_feed);  // the function tells other processes
  return WriteSession::of(session)
      .run(texts_, sql::subscription_resume, name_params(name))
      .boolean(0, 0);
}

std::size_t SubscriptionStore::resume_parked(storage::WriteSession& session, std::string_view name,
                                             std::optional<std::string_view> stream) {
  session.wakes_here(storage::queue_names::event_feed);
  auto params = name_params(name);
  params.add(stream);
  return static_cast<std::size_t>(
      WriteSession::of(session).run(texts_, sql::subscription_resume_parked, params).integer(0, 0));
}

bool SubscriptionStore::skip(storage::WriteSession& session, std::string_view name,
                             std::int64_t position) {
  session.wakes_here(storage::queue_names::event_feed);
  auto params = name_params(name);
  params.add(position);
  return WriteSession::of(session).run(texts_, sql::subscription_skip, params).boolean(0, 0);
}

bool SubscriptionStore::rebuild(storage::WriteSession& session, std::string_view name,
                                std::int64_t position) {
  session.wakes_here(storage::queue_names::event_feed);
  auto params = name_params(name);
  params.add(position);
  return WriteSession::of(session).run(texts_, sql::subscription_rebuild, params).boolean(0, 0);
}

bool SubscriptionStore::remove(storage::WriteSession& session, std::string_view name) {
  return WriteSession::of(session)
      .run(texts_, sql::subscription_remove, name_params(name))
      .boolean(0, 0);
}

}  // namespace dovetail::postgres
