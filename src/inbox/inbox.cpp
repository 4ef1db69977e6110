// The inbox as an operator sees it; the guard and the queue are in guard.cpp and arrivals.cpp.
#include "dovetail/inbox.hpp"

#include <algorithm>

#include "core/require.hpp"
#include "core/text.hpp"
#include "inbox/rules.hpp"
#include "storage/database.hpp"
#include "storage/inbox_store.hpp"
#include "storage/portions.hpp"
#include "storage/queue_names.hpp"

namespace dovetail {
namespace {

using inbox::checked_error;
using inbox::checked_key;
using inbox::require_filter;

constexpr std::chrono::hours ten_years{24 * 3650};

}  // namespace

std::string_view to_string(InboxStatus status) {
  switch (status) {
    case InboxStatus::seen:
      return "seen";
    case InboxStatus::processing:
      return "processing";
    case InboxStatus::processed:
      return "processed";
    case InboxStatus::dead_letter:
      return "dead_letter";
    case InboxStatus::queued:
      return "queued";
  }
  return "unknown";
}

std::string_view to_string(BeginOutcome outcome) {
  switch (outcome) {
    case BeginOutcome::started:
      return "started";
    case BeginOutcome::in_progress:
      return "in_progress";
    case BeginOutcome::processed:
      return "processed";
    case BeginOutcome::dead_letter:
      return "dead_letter";
    case BeginOutcome::hash_mismatch:
      return "hash_mismatch";
  }
  return "unknown";
}

std::string_view to_string(InboxEnqueueOutcome outcome) {
  switch (outcome) {
    case InboxEnqueueOutcome::stored:
      return "stored";
    case InboxEnqueueOutcome::duplicate:
      return "duplicate";
    case InboxEnqueueOutcome::hash_mismatch:
      return "hash_mismatch";
  }
  return "unknown";
}

Inbox::Inbox(storage::Database& database, InboxOptions options, Logger log, Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::InboxStore>()),
      options_(options),
      log_(log),
      metrics_(metrics),
      queue_(database, storage::queue_names::inbox, options.queue, std::move(log),
             std::move(metrics)) {
  inbox::require_lease(options_.lease);
  if (options_.remember < std::chrono::seconds{1} || options_.remember > ten_years) {
    throw std::out_of_range("remember must be a second to ten years");
  }
  if (options_.stuck_after < std::chrono::milliseconds::zero() ||
      options_.stuck_after > ten_years) {
    throw std::out_of_range("stuck_after must be zero to ten years");
  }
}

void Inbox::note_mismatch(std::string_view source, std::string_view message_id) const {
  metrics_.count("dovetail_inbox_hash_mismatch_total", 1,
                 {{"store", database_->name()}, {"source", source}});
  log_.write(LogLevel::warn, "inbox.hash_mismatch",
             {{"store", database_->name()}, {"source", source}, {"message_id", message_id}});
}

std::optional<InboxEntry> Inbox::find(std::string_view source, std::string_view message_id) {
  const auto key = checked_key(source, message_id);
  std::optional<InboxEntry> found;
  database_->read([&](storage::ReadSession& session) { found = store_->find(session, key); });
  return found;
}

InboxCounts Inbox::counts() {
  InboxCounts counts;
  database_->read([&](storage::ReadSession& session) {
    counts = store_->counts(session);
    counts.queue = database_->queue(storage::queue_names::inbox).operations.counts(session);
  });
  return counts;
}

std::vector<InboxEntry> Inbox::dead_letters(const InboxDeadLetterFilter& filter,
                                            const InboxPage& page) {
  require_filter(filter);
  if (page.after_source) (void)checked_key(*page.after_source, page.after_message_id);
  core::require_batch_size("size", page.size);
  std::vector<InboxEntry> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->dead_letters(session, filter, page); });
  return found;
}

std::size_t Inbox::replay(const InboxDeadLetterFilter& filter, const ReplayOptions& options) {
  require_filter(filter);
  if (options.delay < std::chrono::milliseconds::zero() || options.delay > ten_years) {
    throw std::out_of_range("delay must be zero to ten years");
  }
  const ReplayOptions checked{.reason = std::string{checked_error("reason", options.reason)},
                              .delay = options.delay};
  // Messages that die again during the replay are left out.
  auto bounded = filter;
  database_->read([&](storage::ReadSession& session) {
    const auto now = database_->queue(storage::queue_names::outbox).operations.now(session) +
                     std::chrono::microseconds{1};
    bounded.failed_before = std::min(now, filter.failed_before.value_or(now));
  });
  std::size_t total = 0;
  for (std::size_t count = 1; count > 0; total += count) {
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = store_->replay(session, bounded, checked, storage::portion);
      if (count > 0) session.wakes(storage::queue_names::inbox);
    });
  }
  metrics_.count("dovetail_replayed_total", total,
                 {{"store", database_->name()}, {"queue", storage::queue_names::inbox}});
  log_.write(LogLevel::info, "inbox.replayed",
             {{"store", database_->name()},
              {"count", total},
              {"reason", core::printable(checked.reason)}});
  return total;
}

std::size_t Inbox::purge_dead_letters(const InboxDeadLetterFilter& filter) {
  require_filter(filter);
  const auto total =
      storage::in_portions(*database_, [&](storage::WriteSession& session, int most) {
        return store_->purge_dead_letters(session, filter, most);
      });
  log_.write(LogLevel::info, "inbox.purged_dead_letters",
             {{"store", database_->name()}, {"count", total}});
  return total;
}

std::vector<InboxEntry> Inbox::stuck(std::chrono::milliseconds overdue, int most,
                                     const std::stop_token& stop) {
  if (overdue < std::chrono::milliseconds::zero() || overdue > ten_years) {
    throw std::out_of_range("overdue must be zero to ten years");
  }
  core::require_batch_size("most", most);
  std::vector<InboxEntry> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->stuck(session, overdue, most); },
      {.service = true, .stop = stop});
  return found;
}

std::size_t Inbox::purge(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > ten_years) {
    throw std::out_of_range("age must be zero to ten years");
  }
  const auto total = storage::in_portions(
      *database_,
      [&](storage::WriteSession& session, int most) { return store_->purge(session, age, most); },
      stop);
  metrics_.count("dovetail_purged_total", total,
                 {{"store", database_->name()}, {"queue", storage::queue_names::inbox}});
  if (total > 0) {
    log_.write(LogLevel::info, "inbox.purged", {{"store", database_->name()}, {"count", total}});
  }
  return total;
}

}  // namespace dovetail
