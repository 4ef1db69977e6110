// Joins as an operator sees them.
#include <algorithm>
#include <stdexcept>

#include "core/derived_id.hpp"
#include "core/require.hpp"
#include "dovetail/join.hpp"
#include "dovetail/outbox.hpp"
#include "join/rules.hpp"
#include "join/wait_payload.hpp"
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

/// The joins of a message, or the waiting messages of a join, that are shown.
constexpr int most_related = 100;

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

std::vector<JoinId> Joins::joins_of(MessageId message) {
  std::vector<JoinId> found;
  database_->read([&](storage::ReadSession& session) {
    found = store_->joins_of(session, message, most_related);
  });
  return found;
}

std::vector<MessageId> Joins::waiting(JoinId join) {
  std::vector<MessageId> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->waiting(session, join, most_related); });
  const MessageId fanned_out{core::derived_id(join.uuid(), core::Derived::wait_of_join)};
  if (std::ranges::find(found, fanned_out) == found.end() && outbox_->find(fanned_out))
    found.insert(found.begin(), fanned_out);
  return found;
}

std::optional<JoinId> Joins::awaited_by(const Message& message) const {
  if (message.topic != options_.wait_topic) return std::nullopt;
  try {
    return join::parse_wait_payload(message.payload).join;
  } catch (const std::invalid_argument&) {  // written by hand
    return std::nullopt;
  }
}

MessageId Joins::continuation_of(MessageId waiting) {
  return MessageId{core::derived_id(waiting.uuid(), core::Derived::continuation_of_wait)};
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
