#include "sqlite/lease_store.hpp"

#include <algorithm>

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

Lease read_lease(const Cursor& row) {
  using Column = sql::columns::lease_try_acquire;
  return {.name = row.text(Column::name),
          .slot = static_cast<int>(row.integer(Column::slot)),
          .owner = row.text(Column::owner),
          .token = row.integer(Column::token),
          .expires_at = row.time(Column::lease_until),
          .acquired_at = row.time(Column::acquired_at),
          .renewed_at = row.time(Column::renewed_at)};
}

/// Returns a free slot, or nothing if none is free. `taken` has the held slots in ascending order.
std::optional<std::int64_t> free_slot(const std::vector<std::int64_t>& taken,
                                      std::optional<int> slots) {
  if (!slots)
    return std::ranges::find(taken, 0) == taken.end() ? std::optional<std::int64_t>{0}
                                                      : std::nullopt;
  if (std::ranges::count_if(taken, [](std::int64_t slot) { return slot > 0; }) >= *slots)
    return std::nullopt;
  std::int64_t slot = 1;
  for (const auto each : taken) slot += each == slot ? 1 : 0;  // in ascending order
  return slot;
}

}  // namespace

std::optional<Lease> LeaseStore::try_acquire(storage::WriteSession& session,
                                             const storage::LeaseOrder& order) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  {
    auto granted = connection.run(texts_, sql::lease_try_acquire_step_granted);
    if (granted.bind(order.name).bind(order.grant).bind(now).step()) return read_lease(granted);
  }
  std::vector<std::int64_t> taken;
  {
    auto cursor = connection.run(texts_, sql::lease_try_acquire_step_taken);
    cursor.bind(order.name).bind(now);
    while (cursor.step()) taken.push_back(cursor.integer(0));
  }
  const auto slot = free_slot(taken, order.slots);
  if (!slot) return std::nullopt;
  connection.run(texts_, sql::lease_try_acquire_step_token).run();
  auto cursor = connection.run(texts_, sql::lease_try_acquire);
  cursor.bind(order.name)
      .bind(*slot)
      .bind(order.owner)
      .bind(order.grant)
      .bind(now + order.duration)
      .bind(now)
      .step();
  return read_lease(cursor);
}

std::optional<WallTime> LeaseStore::renew(storage::WriteSession& session, const Lease& lease,
                                          std::chrono::microseconds duration) {
  const auto now = clock_->wall();
  auto cursor = WriteSession::of(session).run(texts_, sql::lease_renew);
  cursor.bind(std::string_view{lease.name}).bind(std::string_view{lease.owner}).bind(lease.token);
  return cursor.bind(now).bind(now + duration).step() ? std::optional{cursor.time(0)}
                                                      : std::nullopt;
}

std::optional<bool> LeaseStore::release(storage::WriteSession& session, const Lease& lease) {
  auto cursor = WriteSession::of(session).run(texts_, sql::lease_release);
  cursor.bind(std::string_view{lease.name}).bind(std::string_view{lease.owner}).bind(lease.token);
  if (!cursor.step()) return std::nullopt;
  return cursor.time(0) > clock_->wall();
}

std::size_t LeaseStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                              int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql::lease_purge);
  return cursor.bind(clock_->wall() - age).bind(std::int64_t{most}).run();
}

std::vector<Lease> LeaseStore::list(storage::ReadSession& session,
                                    std::optional<std::string_view> name, const LeasePage& page) {
  auto cursor = ReadSession::of(session).run(texts_, sql::lease_list);
  cursor.bind(name)
      .bind(page.after_name ? std::optional<std::string_view>{*page.after_name} : std::nullopt)
      .bind(std::int64_t{page.after_slot})
      .bind(std::int64_t{page.size})
      .bind(clock_->wall());
  std::vector<Lease> leases;
  while (cursor.step()) leases.push_back(read_lease(cursor));
  return leases;
}

}  // namespace dovetail::sqlite
