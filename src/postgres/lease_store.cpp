#include "postgres/lease_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {
namespace {

Lease read_lease(const Result& result, int row) {
  using Column = sql::columns::lease_try_acquire;
  return {.name = result.text(row, Column::name),
          .slot = static_cast<int>(result.integer(row, Column::slot)),
          .owner = result.text(row, Column::owner),
          .token = result.integer(row, Column::token),
          .expires_at = result.time(row, Column::lease_until),
          .acquired_at = result.time(row, Column::acquired_at),
          .renewed_at = result.time(row, Column::renewed_at)};
}

}  // namespace

std::optional<Lease> LeaseStore::try_acquire(storage::WriteSession& session,
                                             const storage::LeaseOrder& order) {
  Params params;
  params.add(order.name)
      .add(order.owner)
      .add(std::int64_t{order.duration.count()})
      .add(order.slots ? std::optional{std::int32_t{*order.slots}} : std::nullopt)
      .add(order.grant);
  const auto result = WriteSession::of(session).run(texts_, sql::lease_try_acquire, params);
  return result.rows() == 0 ? std::nullopt : std::optional{read_lease(result, 0)};
}

std::optional<WallTime> LeaseStore::renew(storage::WriteSession& session, const Lease& lease,
                                          std::chrono::microseconds duration) {
  Params params;
  params.add(std::string_view{lease.name})
      .add(std::string_view{lease.owner})
      .add(lease.token)
      .add(std::int64_t{duration.count()});
  const auto result = WriteSession::of(session).run(texts_, sql::lease_renew, params);
  return result.is_null(0, 0) ? std::nullopt : std::optional{result.time(0, 0)};
}

std::optional<bool> LeaseStore::release(storage::WriteSession& session, const Lease& lease) {
  Params params;
  params.add(std::string_view{lease.name}).add(std::string_view{lease.owner}).add(lease.token);
  const auto result = WriteSession::of(session).run(texts_, sql::lease_release, params);
  return result.is_null(0, 0) ? std::nullopt : std::optional{result.boolean(0, 0)};
}

std::size_t LeaseStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                              int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return static_cast<std::size_t>(
      WriteSession::of(session).run(texts_, sql::lease_purge, params).integer(0, 0));
}

std::vector<Lease> LeaseStore::list(storage::ReadSession& session,
                                    std::optional<std::string_view> name, const LeasePage& page) {
  Params params;
  params.add(name)
      .add(page.after_name ? std::optional<std::string_view>{*page.after_name} : std::nullopt)
      .add(std::int32_t{page.after_slot})
      .add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql::lease_list, params);
  std::vector<Lease> leases;
  leases.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) leases.push_back(read_lease(result, row));
  return leases;
}

}  // namespace dovetail::postgres
