#include "dovetail/outbox.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/require.hpp"
#include "core/text.hpp"
#include "outbox/new_messages.hpp"
#include "storage/database.hpp"
#include "storage/outbox_store.hpp"

namespace dovetail {
namespace {

using core::require_batch_size;
using core::require_text;
using core::require_time;
using outbox::announcement_in;
using outbox::checked;
using outbox::require_topic;
using storage::Announcement;

constexpr std::size_t largest_payload_limit = std::size_t{64} << 20;
constexpr std::size_t max_error_bytes = 2048;
constexpr int largest_max_attempts = 1'000;
constexpr std::chrono::milliseconds max_lease = std::chrono::hours{24};
constexpr std::chrono::milliseconds max_delay = std::chrono::hours{24 * 365};
constexpr int portion = 1'000;  // rows per transaction of what works through many

void require_owner(OwnerToken owner) {
  if (owner.is_nil()) throw std::invalid_argument("owner must not be the nil UUID");
}

void require_lease(std::chrono::milliseconds lease) {
  if (lease < std::chrono::milliseconds{1} || lease > max_lease) {
    throw std::out_of_range("lease must be 1 ms to 24 h");
  }
}

void require_max_attempts(int attempts) {
  if (attempts < 1 || attempts > largest_max_attempts) {
    throw std::out_of_range("max_attempts must be 1 to " + std::to_string(largest_max_attempts) + ", got " +
                            std::to_string(attempts));
  }
}

void require_delay(std::optional<std::chrono::milliseconds> delay) {
  if (delay && (*delay < std::chrono::milliseconds::zero() || *delay > max_delay)) {
    throw std::out_of_range("delay must be zero to a year");
  }
}

std::string_view checked_error(std::string_view error) {
  require_text("error", error);
  return core::trimmed(error, max_error_bytes);
}

void require_filter(const DeadLetterFilter& filter) {
  if (filter.topic) require_topic(*filter.topic);
  if (filter.failed_after) require_time("failed_after", *filter.failed_after);
  if (filter.failed_before) require_time("failed_before", *filter.failed_before);
}

}  // namespace

std::string_view to_string(OutboxStatus status) {
  switch (status) {
    case OutboxStatus::ready:
      return "ready";
    case OutboxStatus::in_progress:
      return "in_progress";
    case OutboxStatus::done:
      return "done";
    case OutboxStatus::failed:
      return "failed";
  }
  return "unknown";
}

Outbox::Outbox(storage::Database& database, OutboxOptions options, Logger log, Metrics metrics)
    : database_(&database), options_(options), log_(std::move(log)), metrics_(std::move(metrics)) {
  if (options_.max_payload_bytes > largest_payload_limit) {
    throw std::out_of_range("max_payload_bytes must not exceed " + std::to_string(largest_payload_limit));
  }
  require_max_attempts(options_.max_attempts);
  if (options_.retain_done < std::chrono::seconds::zero() ||
      options_.retain_done > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("retain_done must be zero to ten years");
  }
}

// --- enqueue
// -------------------------------------------------------------------------------------------------

Enqueued Outbox::enqueue(const EnqueueRequest& request) {
  if (!request.joins.empty()) return enqueue_many(std::span{&request, 1}).front();
  auto message = checked(request, options_);
  Enqueued answer;
  const bool fresh = message.fresh;
  const bool inside = fresh && !message.unique_key && database_->announces_inside();
  bool again = false;
  database_->write({.single_statement = true, .repeatable = true}, [&](storage::WriteSession& session) {
    const bool repeated = std::exchange(again, true);
    message.fresh = fresh && !repeated;
    answer =
        database_->outbox().enqueue(session, message, inside ? Announcement::inside : Announcement::later);
    // A second run finds what the first one stored without being told: that was this call's doing.
    if (repeated && fresh && answer == message.id) answer = {message.id, true};
  });
  note_enqueued(message, answer.stored());
  const bool announced = inside && message.fresh;  // not by a second run
  if (answer.stored() && announced) database_->doorbell().ring();
  if (answer.stored() && !announced) database_->announce();
  return answer;
}

Enqueued Outbox::enqueue(Transaction& transaction, const EnqueueRequest& request) {
  if (!request.joins.empty()) return enqueue_many(transaction, std::span{&request, 1}).front();
  const auto message = checked(request, options_);
  const auto answer =
      database_->outbox().enqueue(transaction.session(), message, announcement_in(transaction));
  if (answer.stored()) transaction.announce_at_commit();
  note_enqueued(message, answer.stored());
  return answer;
}

std::vector<Enqueued> Outbox::enqueue_many(std::span<const EnqueueRequest> requests) {
  const auto messages = checked(requests, options_);
  if (messages.empty()) return {};
  std::vector<Enqueued> answers;
  bool again = false;
  database_->write({.repeatable = true}, [&](storage::WriteSession& session) {
    const bool repeated = std::exchange(again, true);
    answers = outbox::store(*database_, session, requests, messages, repeated, Announcement::later);
    if (!repeated) return;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].fresh && answers[i] == messages[i].id) answers[i] = {messages[i].id, true};
    }
  });
  note_enqueued_many(requests, answers);
  database_->announce();
  return answers;
}

std::vector<Enqueued> Outbox::enqueue_many(Transaction& transaction,
                                           std::span<const EnqueueRequest> requests) {
  const auto messages = checked(requests, options_);
  if (messages.empty()) return {};
  auto answers = outbox::store(*database_, transaction.session(), requests, messages, false,
                               announcement_in(transaction));
  transaction.announce_at_commit();
  note_enqueued_many(requests, answers);
  return answers;
}

void Outbox::note_enqueued(const storage::NewMessage& message, bool stored) const {
  metrics_.count(stored ? "outbox.enqueued" : "outbox.duplicates", 1,
                 {{"store", database_->name()}, {"topic", message.topic}});
  if (!log_.enabled(LogLevel::info)) return;
  log_.write(LogLevel::info, stored ? "outbox.enqueued" : "outbox.duplicate",
             {{"store", database_->name()},
              {"topic", message.topic},
              {"message_id", message.id.to_string()},
              {"correlation_id", message.correlation_id.value_or("")}});
}

void Outbox::note_enqueued_many(std::span<const EnqueueRequest> requests,
                                std::span<const Enqueued> answers) const {
  if (log_.enabled(LogLevel::debug)) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (const auto& join : requests[i].joins) {
        log_.write(LogLevel::debug, "join.attached",
                   {{"store", database_->name()},
                    {"join_id", join.to_string()},
                    {"message_id", answers[i].to_string()}});
      }
    }
  }
  const auto stored = static_cast<std::size_t>(std::ranges::count_if(answers, &Enqueued::stored));
  metrics_.count("outbox.enqueued", stored, {{"store", database_->name()}});
  metrics_.count("outbox.duplicates", answers.size() - stored, {{"store", database_->name()}});
  log_.write(LogLevel::info, "outbox.enqueued_many",
             {{"store", database_->name()}, {"count", stored}, {"duplicates", answers.size() - stored}});
}

// --- claim and settle
// ----------------------------------------------------------------------------------------

std::vector<ClaimedMessage> Outbox::claim(const ClaimRequest& request) {
  require_owner(request.owner);
  require_batch_size("batch_size", request.batch_size);
  require_lease(request.lease);
  std::vector<ClaimedMessage> claimed;
  database_->write({.single_statement = true, .stop = request.stop}, [&](storage::WriteSession& session) {
    auto entries = database_->outbox().claim(session, {.owner = request.owner,
                                                       .batch_size = request.batch_size,
                                                       .lease = request.lease,
                                                       .max_attempts = options_.max_attempts});
    claimed.clear();
    for (auto& entry : entries) claimed.push_back(std::move(entry.claimed));
  });
  metrics_.count("outbox.claimed", claimed.size(), {{"store", database_->name()}});
  log_.write(LogLevel::debug, "outbox.claimed",
             {{"store", database_->name()}, {"owner", request.owner.to_string()}, {"count", claimed.size()}});
  return claimed;
}

template <class Call>
std::size_t Outbox::settle(const char* event, OwnerToken owner, std::span<const Claim> claims,
                           const Call& call) {
  require_owner(owner);
  if (claims.empty()) return 0;
  // In id order: the lock order of the whole house.
  std::vector<Claim> ordered(claims.begin(), claims.end());
  std::ranges::sort(ordered, {}, [](const Claim& claim) { return std::pair{claim.id, claim.epoch}; });
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  const std::size_t count = call(std::span<const Claim>{ordered});
  metrics_.count(event, count, {{"store", database_->name()}});
  log_.write(LogLevel::debug, event,
             {{"store", database_->name()},
              {"owner", owner.to_string()},
              {"asked", claims.size()},
              {"count", count}});
  return count;
}

std::size_t Outbox::ack(OwnerToken owner, std::span<const Claim> claims) {
  return settle("outbox.acked", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = database_->outbox().ack(session, owner, ordered, options_.retain_done.count() > 0);
    });
    return count;
  });
}

std::size_t Outbox::ack(Transaction& transaction, OwnerToken owner, std::span<const Claim> claims) {
  return settle("outbox.acked", owner, claims, [&](std::span<const Claim> ordered) {
    return database_->outbox().ack(transaction.session(), owner, ordered, options_.retain_done.count() > 0);
  });
}

std::size_t Outbox::abandon(OwnerToken owner, std::span<const Claim> claims, const AbandonOptions& options) {
  const auto error = checked_error(options.error);
  require_delay(options.delay);
  const auto max_attempts = options.max_attempts.value_or(options_.max_attempts);
  require_max_attempts(max_attempts);
  return settle("outbox.abandoned", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = database_->outbox().abandon(session, owner, ordered, error, options.delay, max_attempts);
    });
    return count;
  });
}

std::size_t Outbox::fail(OwnerToken owner, std::span<const Claim> claims, std::string_view error) {
  const auto text = checked_error(error);
  if (text.empty()) throw std::invalid_argument("error must not be empty");
  return settle("outbox.failed", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = database_->outbox().fail(session, owner, ordered, text, 1);
    });
    return count;
  });
}

std::size_t Outbox::snooze(OwnerToken owner, std::span<const Claim> claims,
                           std::optional<std::chrono::milliseconds> delay) {
  require_delay(delay);
  return settle("outbox.snoozed", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = database_->outbox().snooze(session, owner, ordered, delay);
    });
    return count;
  });
}

std::size_t Outbox::renew(OwnerToken owner, std::span<const Claim> claims, std::chrono::milliseconds lease) {
  require_lease(lease);
  return settle("outbox.renewed", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true, .repeatable = true}, [&](storage::WriteSession& session) {
      count = database_->outbox().renew(session, owner, ordered, lease).size();
    });
    return count;
  });
}

// --- operating
// -----------------------------------------------------------------------------------------------

/// Calls `call(session)` in one transaction after the other until it answers less than a portion.
template <class Call>
std::size_t Outbox::in_portions(const Call& call, const std::stop_token& stop) {
  std::size_t total = 0;
  for (std::size_t count = portion; count >= portion && !stop.stop_requested(); total += count) {
    database_->write({.single_statement = true, .stop = stop},
                     [&](storage::WriteSession& session) { count = call(session); });
  }
  return total;
}

std::size_t Outbox::reap_expired(const ReapOptions& options) {
  const auto attempts = options.max_attempts.value_or(options_.max_attempts);
  require_max_attempts(attempts);
  const auto count = in_portions(
      [&](storage::WriteSession& session) {
        return database_->outbox().reap_expired(session, attempts, portion, options.look_at);
      },
      options.stop);
  metrics_.count("outbox.reaped", count, {{"store", database_->name()}});
  log_.write(count > 0 ? LogLevel::info : LogLevel::debug, "outbox.reaped",
             {{"store", database_->name()}, {"count", count}});
  if (count > 0) database_->announce();
  return count;
}

OutboxCounts Outbox::counts() {
  OutboxCounts counts;
  database_->read([&](storage::ReadSession& session) { counts = database_->outbox().counts(session); });
  return counts;
}

std::optional<StoredMessage> Outbox::find(OutboxMessageId id) {
  std::optional<StoredMessage> found;
  database_->read([&](storage::ReadSession& session) { found = database_->outbox().find(session, id); });
  return found;
}

std::vector<StoredMessage> Outbox::dead_letters(const DeadLetterFilter& filter, const DeadLetterPage& page) {
  require_filter(filter);
  require_batch_size("size", page.size);
  std::vector<StoredMessage> found;
  database_->read([&](storage::ReadSession& session) {
    found = database_->outbox().dead_letters(session, filter, page);
  });
  return found;
}

std::size_t Outbox::replay(std::span<const OutboxMessageId> ids) {
  std::size_t total = 0;
  for (; !ids.empty(); ids = ids.subspan(std::min<std::size_t>(ids.size(), portion))) {
    const auto some = ids.first(std::min<std::size_t>(ids.size(), portion));
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = database_->outbox().replay(session, some, {}, portion);
    });
    total += count;
  }
  metrics_.count("outbox.replayed", total, {{"store", database_->name()}});
  log_.write(LogLevel::info, "outbox.replayed", {{"store", database_->name()}, {"count", total}});
  if (total > 0) database_->announce();
  return total;
}

std::size_t Outbox::replay(const DeadLetterFilter& filter) {
  require_filter(filter);
  // Not those that fail again while we are at it.
  auto bounded = filter;
  database_->read([&](storage::ReadSession& session) {
    const auto now = database_->outbox().now(session) + std::chrono::microseconds{1};
    bounded.failed_before = std::min(now, filter.failed_before.value_or(now));
  });
  std::size_t total = 0;
  for (std::size_t count = 1; count > 0; total += count) {
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = database_->outbox().replay(session, std::nullopt, bounded, portion);
    });
  }
  metrics_.count("outbox.replayed", total, {{"store", database_->name()}});
  log_.write(LogLevel::info, "outbox.replayed", {{"store", database_->name()}, {"count", total}});
  if (total > 0) database_->announce();
  return total;
}

std::size_t Outbox::purge_dead_letters(std::span<const OutboxMessageId> ids) {
  std::size_t total = 0;
  for (; !ids.empty(); ids = ids.subspan(std::min<std::size_t>(ids.size(), portion))) {
    const auto some = ids.first(std::min<std::size_t>(ids.size(), portion));
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = database_->outbox().purge_failed(session, some, {}, portion);
    });
    total += count;
  }
  log_.write(LogLevel::info, "outbox.purged_dead_letters", {{"store", database_->name()}, {"count", total}});
  return total;
}

std::size_t Outbox::purge_dead_letters(const DeadLetterFilter& filter) {
  require_filter(filter);
  const auto total = in_portions([&](storage::WriteSession& session) {
    return database_->outbox().purge_failed(session, std::nullopt, filter, portion);
  });
  log_.write(LogLevel::info, "outbox.purged_dead_letters", {{"store", database_->name()}, {"count", total}});
  return total;
}

std::size_t Outbox::purge_done(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("age must be zero to ten years");
  }
  const auto total = in_portions(
      [&](storage::WriteSession& session) { return database_->outbox().purge_done(session, age, portion); },
      stop);
  metrics_.count("outbox.purged", total, {{"store", database_->name()}});
  if (total > 0)
    log_.write(LogLevel::info, "outbox.purged", {{"store", database_->name()}, {"count", total}});
  return total;
}

bool Outbox::pause(std::string_view topic) {
  require_topic(topic);
  bool paused = false;
  database_->write({.single_statement = true, .repeatable = true}, [&](storage::WriteSession& session) {
    paused = database_->outbox().pause(session, topic);
  });
  log_.write(LogLevel::info, "outbox.paused", {{"store", database_->name()}, {"topic", topic}});
  return paused;
}

bool Outbox::resume(std::string_view topic) {
  require_topic(topic);
  bool resumed = false;
  database_->write({.single_statement = true, .repeatable = true}, [&](storage::WriteSession& session) {
    resumed = database_->outbox().resume(session, topic);
  });
  // Also when it was not paused: a resume that was cut short is finished by calling it again.
  const auto back = in_portions(
      [&](storage::WriteSession& session) { return database_->outbox().unpark(session, topic, portion); });
  log_.write(LogLevel::info, "outbox.resumed",
             {{"store", database_->name()}, {"topic", topic}, {"count", back}});
  database_->announce();
  return resumed;
}

std::vector<PausedTopic> Outbox::paused_topics() {
  std::vector<PausedTopic> paused;
  database_->read([&](storage::ReadSession& session) { paused = database_->outbox().paused(session); });
  return paused;
}

}  // namespace dovetail
