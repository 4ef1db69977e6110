// Joins as an operator sees them.
#include <stdexcept>

#include "core/require.hpp"
#include "dovetail/join.hpp"
#include "join/rules.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/join_store.hpp"
#include "storage/portions.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

using join::max_grouping_key_characters;
using join::no_such_join;
using join::require_id;
using storage::after_commit;
using storage::session_of;

}  // namespace

bool Joins::cancel_in(storage::WriteSession& session, JoinId join) const {
  const auto cancelled = store_->cancel(session, join);
  if (!cancelled) no_such_join(join);
  return *cancelled;
}

void Joins::note_cancelled(JoinId join) const {
  metrics_.count("dovetail_joins_cancelled_total", 1, {{"store", database_->name()}});
  log_.write(LogLevel::info, "join.cancelled",
             {{"store", database_->name()}, {"join_id", join.to_string()}});
}

bool Joins::cancel(JoinId join) {
  require_id("join", join.uuid());
  const bool cancelled = storage::confirmed_write(
      *database_, {}, [&](storage::WriteSession& session) { return cancel_in(session, join); },
      [&](storage::WriteSession& session) { return store_->is_cancelled(session, join); });
  if (cancelled) note_cancelled(join);
  return cancelled;
}

bool Joins::cancel(Transaction& transaction, JoinId join) {
  require_id("join", join.uuid());
  const bool cancelled = cancel_in(session_of(transaction), join);
  if (cancelled) after_commit(transaction, [this, join] { note_cancelled(join); });
  return cancelled;
}

std::optional<Join> Joins::find(JoinId join) {
  std::optional<Join> found;
  database_->read([&](storage::ReadSession& session) { found = store_->find(session, join); });
  return found;
}

std::vector<Join> Joins::list(const JoinFilter& filter, const JoinPage& page) {
  if (filter.grouping_key) {
    core::require_length("grouping_key", *filter.grouping_key, max_grouping_key_characters);
  }
  if (filter.created_after) core::require_time("created_after", *filter.created_after);
  if (filter.created_before) core::require_time("created_before", *filter.created_before);
  core::require_batch_size("size", page.size);
  std::vector<Join> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->list(session, filter, page); });
  return found;
}

std::vector<JoinMember> Joins::members(JoinId join, const MemberPage& page) {
  core::require_batch_size("size", page.size);
  std::vector<JoinMember> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->members(session, join, page); });
  return found;
}

std::size_t Joins::fail_overdue(const std::stop_token& stop) {
  const auto count = storage::in_portions(
      *database_,
      [&](storage::WriteSession& session, int most) { return store_->fail_overdue(session, most); },
      stop);
  if (count > 0) {
    metrics_.count("dovetail_joins_overdue_total", count, {{"store", database_->name()}});
    log_.write(LogLevel::info, "join.overdue", {{"store", database_->name()}, {"count", count}});
  }
  return count;
}

std::size_t Joins::purge(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("age must be zero to ten years");
  }
  std::size_t count = 0;
  while (!stop.stop_requested()) {
    // Each transaction deletes joins until they have `portion` steps together.
    std::size_t some = 0;
    // The clock of the system, as in in_portions(): other writers wait in real time.
    const auto begun = std::chrono::steady_clock::now();
    database_->write({.single_statement = true, .service = true, .stop = stop},
                     [&](storage::WriteSession& session) {
                       some = store_->purge(session, age, storage::portion);
                     });
    count += some;
    if (some == 0) break;
    const auto took = std::chrono::steady_clock::now() - begun;
    if (database_->transactions_exclude_writers() && !storage::pause_between_portions(took, stop))
      break;
  }
  if (count > 0)
    log_.write(LogLevel::info, "join.purged", {{"store", database_->name()}, {"count", count}});
  return count;
}

}  // namespace dovetail
