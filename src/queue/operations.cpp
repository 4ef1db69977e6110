// A queue as an operator sees it: counts, dead letters, purges, paused topics.
#include <algorithm>
#include <stdexcept>

#include "core/require.hpp"
#include "dovetail/queue.hpp"
#include "queue/new_messages.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/portions.hpp"
#include "storage/queue_store.hpp"

namespace dovetail {
namespace {

using core::require_batch_size;
using core::require_time;
using queue::require_max_attempts;
using queue::require_topic;
using storage::in_portions;

constexpr int most_summary_letters = 10'000'000;
constexpr std::int64_t most_counted = 10'000'000;

void require_filter(const DeadLetterFilter& filter) {
  if (filter.topic) require_topic(*filter.topic);
  if (filter.failed_after) require_time("failed_after", *filter.failed_after);
  if (filter.failed_before) require_time("failed_before", *filter.failed_before);
}

/// Wakes workers if `count` messages were made ready. Returns `count`.
std::size_t waking(storage::WriteSession& session, std::string_view queue, std::size_t count) {
  if (count > 0) session.wakes(queue);
  return count;
}

}  // namespace

std::size_t WorkQueue::reap_expired(const ReapOptions& options) {
  if (options.max_attempts) require_max_attempts(*options.max_attempts);
  const auto count = in_portions(
      *database_,
      [&](storage::WriteSession& session) {
        return waking(session, name_,
                      consumer_->reap_expired(session, options.max_attempts, storage::portion,
                                              options.scan_limit));
      },
      options.stop);
  metrics_.count("dovetail_reaped_total", count, {{"store", database_->name()}, {"queue", name_}});
  log_.write(count > 0 ? LogLevel::info : LogLevel::debug, event("reaped"),
             {{"store", database_->name()}, {"count", count}});
  return count;
}

QueueCounts WorkQueue::counts(std::int64_t up_to) {
  if (up_to < 1 || up_to > most_counted) {
    throw std::out_of_range("up_to must be 1 to " + std::to_string(most_counted) + ", got " +
                            std::to_string(up_to));
  }
  QueueCounts counts;
  database_->read(
      [&](storage::ReadSession& session) { counts = operator_->counts(session, up_to); });
  return counts;
}

bool WorkQueue::has_work(std::span<const std::string> topics) {
  for (const auto& topic : topics) require_topic(topic);
  bool found = false;
  database_->read(
      [&](storage::ReadSession& session) { found = operator_->has_work(session, topics); });
  return found;
}

std::optional<StoredMessage> WorkQueue::find(MessageId id) {
  std::optional<StoredMessage> found;
  database_->read([&](storage::ReadSession& session) { found = operator_->find(session, id); });
  return found;
}

std::vector<StoredMessage> WorkQueue::dead_letters(const DeadLetterFilter& filter,
                                                   const DeadLetterPage& page) {
  require_filter(filter);
  require_batch_size("size", page.size);
  std::vector<StoredMessage> found;
  database_->read([&](storage::ReadSession& session) {
    found = operator_->dead_letters(session, filter, page);
  });
  return found;
}

DeadLetterSummary WorkQueue::dead_letter_summary(const DeadLetterFilter& filter,
                                                 const DeadLetterSummaryLimits& limits) {
  require_filter(filter);
  require_batch_size("groups", limits.groups);
  if (limits.letters < 1 || limits.letters > most_summary_letters) {
    throw std::out_of_range("letters must be 1 to " + std::to_string(most_summary_letters) +
                            ", got " + std::to_string(limits.letters));
  }
  // One more group shows whether groups are left out.
  const DeadLetterSummaryLimits asked{.letters = limits.letters, .groups = limits.groups + 1};
  DeadLetterSummary summary;
  database_->read([&](storage::ReadSession& session) {
    summary = operator_->dead_letter_summary(session, filter, asked);
  });
  summary.letters_cut = summary.letters_read >= limits.letters;
  summary.groups_cut = summary.groups.size() > static_cast<std::size_t>(limits.groups);
  if (summary.groups_cut) summary.groups.pop_back();
  return summary;
}

std::size_t WorkQueue::replay(std::span<const MessageId> ids) {
  std::size_t total = 0;
  for (; !ids.empty(); ids = ids.subspan(std::min<std::size_t>(ids.size(), storage::portion))) {
    const auto some = ids.first(std::min<std::size_t>(ids.size(), storage::portion));
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = waking(session, name_, operator_->replay(session, some, {}, storage::portion));
    });
    total += count;
  }
  metrics_.count("dovetail_replayed_total", total,
                 {{"store", database_->name()}, {"queue", name_}});
  log_.write(LogLevel::info, event("replayed"), {{"store", database_->name()}, {"count", total}});
  return total;
}

std::size_t WorkQueue::replay(const DeadLetterFilter& filter) {
  require_filter(filter);
  // Messages that fail again during the replay are left out.
  auto bounded = filter;
  database_->read([&](storage::ReadSession& session) {
    const auto now = operator_->now(session) + std::chrono::microseconds{1};
    bounded.failed_before = std::min(now, filter.failed_before.value_or(now));
  });
  std::size_t total = 0;
  for (std::size_t count = 1; count > 0; total += count) {
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = waking(session, name_,
                     operator_->replay(session, std::nullopt, bounded, storage::portion));
    });
  }
  metrics_.count("dovetail_replayed_total", total,
                 {{"store", database_->name()}, {"queue", name_}});
  log_.write(LogLevel::info, event("replayed"), {{"store", database_->name()}, {"count", total}});
  return total;
}

std::size_t WorkQueue::purge_dead_letters(std::span<const MessageId> ids) {
  std::size_t total = 0;
  for (; !ids.empty(); ids = ids.subspan(std::min<std::size_t>(ids.size(), storage::portion))) {
    const auto some = ids.first(std::min<std::size_t>(ids.size(), storage::portion));
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = operator_->purge_failed(session, some, {}, storage::portion);
    });
    total += count;
  }
  log_.write(LogLevel::info, event("purged_dead_letters"),
             {{"store", database_->name()}, {"count", total}});
  return total;
}

std::size_t WorkQueue::purge_dead_letters(const DeadLetterFilter& filter) {
  require_filter(filter);
  const auto total = in_portions(*database_, [&](storage::WriteSession& session) {
    return operator_->purge_failed(session, std::nullopt, filter, storage::portion);
  });
  log_.write(LogLevel::info, event("purged_dead_letters"),
             {{"store", database_->name()}, {"count", total}});
  return total;
}

std::size_t WorkQueue::purge_done(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("age must be zero to ten years");
  }
  const auto total = in_portions(
      *database_,
      [&](storage::WriteSession& session) {
        return operator_->purge_done(session, age, storage::portion);
      },
      stop);
  metrics_.count("dovetail_purged_total", total, {{"store", database_->name()}, {"queue", name_}});
  if (total > 0)
    log_.write(LogLevel::info, event("purged"), {{"store", database_->name()}, {"count", total}});
  return total;
}

bool WorkQueue::pause(std::string_view topic) {
  require_topic(topic);
  const bool paused = storage::confirmed_write(
      *database_, {.single_statement = true},
      [&](storage::WriteSession& session) { return operator_->pause(session, topic); });
  log_.write(LogLevel::info, event("paused"), {{"store", database_->name()}, {"topic", topic}});
  return paused;
}

bool WorkQueue::resume(std::string_view topic) {
  require_topic(topic);
  const bool resumed = storage::confirmed_write(
      *database_, {.single_statement = true},
      [&](storage::WriteSession& session) { return operator_->resume(session, topic); });
  // Also when the topic was not paused: a second call finishes a resume that was interrupted.
  const auto back = in_portions(*database_, [&](storage::WriteSession& session) {
    session.wakes(name_);
    return consumer_->unpark(session, topic, storage::portion);
  });
  log_.write(LogLevel::info, event("resumed"),
             {{"store", database_->name()}, {"topic", topic}, {"count", back}});
  return resumed;
}

std::vector<PausedTopic> WorkQueue::paused_topics() {
  std::vector<PausedTopic> paused;
  database_->read([&](storage::ReadSession& session) { paused = operator_->paused(session); });
  return paused;
}

}  // namespace dovetail
