#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "core/headers.hpp"
#include "core/require.hpp"
#include "dovetail/schedule.hpp"
#include "queue/enqueued_count.hpp"
#include "queue/new_messages.hpp"
#include "storage/database.hpp"
#include "storage/queue_names.hpp"
#include "storage/queue_store.hpp"
#include "storage/timer_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

using storage::session_of;
/// Longer than a transaction can last. No other process sees this lease: claimed timers fire in the
/// same transaction, or not at all.
constexpr std::chrono::hours lease_while_firing{24 * 365};
constexpr int endless_attempts = 1'000'000'000;

EnqueueRequest as_message(const TimerRequest& request) {
  if (request.delay && request.due_at != WallTime{}) {
    throw std::invalid_argument("due_at and delay exclude each other");
  }
  EnqueueRequest message{.topic = request.topic,
                         .payload = request.payload,
                         .due_at = request.delay ? std::nullopt : std::optional{request.due_at},
                         .delay = request.delay,
                         .correlation_id = request.correlation_id};
  message.headers = request.headers;
  message.priority = request.priority;
  message.unique_key = request.unique_key;
  if (request.timer_id) message.message_id = MessageId{request.timer_id->uuid()};
  return message;
}

std::vector<EnqueueRequest> as_messages(std::span<const TimerRequest> requests) {
  std::vector<EnqueueRequest> messages;
  messages.reserve(requests.size());
  for (const auto& request : requests) messages.push_back(as_message(request));
  return messages;
}

ScheduledTimer as_timer(const Enqueued& answer) {
  return {TimerId{answer.uuid()}, answer.stored()};
}

std::vector<ScheduledTimer> as_timers(std::span<const Enqueued> answers) {
  std::vector<ScheduledTimer> timers;
  timers.reserve(answers.size());
  for (const auto& answer : answers) timers.push_back(as_timer(answer));
  return timers;
}

queue::EnqueuedCount count_of(std::span<const storage::NewMessage> messages,
                              std::span<const Enqueued> answers) {
  queue::EnqueuedCount count;
  count.add(messages, answers);
  return count;
}

/// The message that a timer becomes.
storage::NewMessage message_of(const Message& timer) {
  storage::NewMessage message{.id = timer.message_id,
                              .fresh = true,
                              .topic = timer.topic,
                              .payload = timer.payload,
                              .correlation_id = std::nullopt,
                              .due_at = timer.due_at,
                              .headers = std::nullopt,
                              .expires_at = std::nullopt,
                              .priority = timer.priority,
                              .unique_key = std::nullopt};
  if (timer.correlation_id) message.correlation_id = *timer.correlation_id;
  if (!timer.headers.empty()) message.headers = core::to_json(timer.headers);
  return message;
}

}  // namespace

/// While many timers are due, a batch starts where the last one ended. The index keeps entries of
/// fired timers for a while, and a batch that starts at the front would read all of them.
struct Timers::Marks {
  std::mutex mutex;
  std::optional<storage::QueueMarks> after;

  std::optional<storage::QueueMarks> get() {
    const std::lock_guard lock(mutex);
    return after;
  }
  /// After a batch that was not full, the next one starts at the front again.
  void note(std::span<const storage::ClaimedEntry> claimed, bool full) {
    const std::lock_guard lock(mutex);
    if (!full) {
      after.reset();
      return;
    }
    if (!after) after.emplace();
    for (const auto& entry : claimed) {
      const auto lane =
          static_cast<std::size_t>(entry.claimed.message.priority - storage::lowest_priority);
      if (lane < after->size()) (*after)[lane] = {entry.ready_at, entry.claimed.claim.id.uuid()};
    }
  }
};

Timers::Timers(storage::Database& database, QueueOptions options, Logger log, Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::TimerStore>()),
      producer_(&database.queue(storage::queue_names::timers).producer),
      consumer_(&database.queue(storage::queue_names::timers).consumer),
      log_(log),
      metrics_(metrics),
      queue_(database, storage::queue_names::timers, options, std::move(log), std::move(metrics)),
      marks_(std::make_shared<Marks>()) {}

ScheduledTimer Timers::schedule(const TimerRequest& request) {
  return schedule_many(std::span{&request, 1}).front();
}

ScheduledTimer Timers::schedule(Transaction& transaction, const TimerRequest& request) {
  return schedule_many(transaction, std::span{&request, 1}).front();
}

std::vector<ScheduledTimer> Timers::schedule_many(std::span<const TimerRequest> requests) {
  const auto messages = as_messages(requests);
  const auto checked = queue::checked(messages, queue_.options());
  if (checked.empty()) return {};
  std::vector<Enqueued> answers;
  database_->write({.repeatable = true},
                   [&](storage::WriteSession& session, const storage::Attempt& attempt) {
                     answers = producer_->enqueue_many(session, checked, attempt.after_doubt);
                     queue::count_own_as_stored(answers, checked, attempt);
                   });
  count_of(checked, answers).report(metrics_, database_->name(), queue_.name());
  return as_timers(answers);
}

std::vector<ScheduledTimer> Timers::schedule_many(Transaction& transaction,
                                                  std::span<const TimerRequest> requests) {
  const auto messages = as_messages(requests);
  const auto checked = queue::checked(messages, queue_.options());
  if (checked.empty()) return {};
  const auto answers = producer_->enqueue_many(session_of(transaction), checked, false);
  storage::after_commit(transaction, [this, count = count_of(checked, answers)] {
    count.report(metrics_, database_->name(), queue_.name());
  });
  return as_timers(answers);
}

bool Timers::cancel(TimerId timer) {
  bool cancelled = false;
  database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
    cancelled = store_->cancel(session, timer);
  });
  log_.write(LogLevel::info, cancelled ? "timers.cancelled" : "timers.not_cancelled",
             {{"store", database_->name()}, {"timer_id", timer.to_string()}});
  return cancelled;
}

bool Timers::cancel(Transaction& transaction, TimerId timer) {
  return store_->cancel(session_of(transaction), timer);
}

bool Timers::move_in(storage::WriteSession& session, TimerId timer,
                     const storage::NewTime& time) const {
  const bool found = store_->reschedule(session, timer, time);
  if (found) session.wakes(storage::queue_names::timers);
  return found;
}

bool Timers::move(TimerId timer, const storage::NewTime& time) {
  bool found = false;
  database_->write({.single_statement = true, .repeatable = true},
                   [&](storage::WriteSession& session) { found = move_in(session, timer, time); });
  return found;
}

bool Timers::move(Transaction& transaction, TimerId timer, const storage::NewTime& time) {
  return move_in(session_of(transaction), timer, time);
}

bool Timers::reschedule(TimerId timer, WallTime due_at) {
  core::require_time("due_at", due_at);
  return move(timer, {.due_at = due_at});
}

bool Timers::reschedule(Transaction& transaction, TimerId timer, WallTime due_at) {
  core::require_time("due_at", due_at);
  return move(transaction, timer, {.due_at = due_at});
}

bool Timers::reschedule(TimerId timer, std::chrono::milliseconds delay) {
  queue::require_delay(delay);
  return move(timer, {.delay = delay});
}

bool Timers::reschedule(Transaction& transaction, TimerId timer, std::chrono::milliseconds delay) {
  queue::require_delay(delay);
  return move(transaction, timer, {.delay = delay});
}

std::optional<Timer> Timers::find(TimerId timer) {
  const auto stored = queue_.find(MessageId{timer.uuid()});
  if (!stored) return std::nullopt;
  Timer found;
  found.id = timer;
  found.topic = stored->message.topic;
  found.payload = stored->message.payload;
  found.correlation_id = stored->message.correlation_id;
  found.unique_key = stored->unique_key;
  found.created_at = stored->message.created_at;
  found.due_at = stored->message.due_at.value_or(found.created_at);
  found.status = stored->status;
  found.next_attempt_at = stored->next_attempt_at;
  if (found.status == MessageStatus::done) found.fired_at = stored->processed_at;
  found.attempts = stored->message.attempts;
  found.last_error = stored->last_error;
  return found;
}

std::vector<Timer> Timers::list(const std::optional<std::string>& topic, const TimerPage& page) {
  if (topic) queue::require_topic(*topic);
  if (page.after_time) core::require_time("after_time", *page.after_time);
  core::require_batch_size("size", page.size);
  std::vector<Timer> found;
  database_->read([&](storage::ReadSession& session) {
    found =
        store_->list(session, topic ? std::optional<std::string_view>{*topic} : std::nullopt, page);
  });
  return found;
}

/// Enqueues the messages of claimed timers and acks the timers.
void Timers::enqueue_fired(storage::WriteSession& session,
                           std::span<const storage::ClaimedEntry> claimed) const {
  if (claimed.empty()) return;
  std::vector<storage::NewMessage> messages;
  std::vector<Claim> claims;
  messages.reserve(claimed.size());
  claims.reserve(claimed.size());
  for (const auto& entry : claimed) {
    messages.push_back(message_of(entry.claimed.message));
    claims.push_back(entry.claimed.claim);
  }
  std::ranges::sort(claims, {}, &Claim::id);
  // Code of the user may have stored a message with the id of a timer. Then every id is checked.
  std::vector<Uuid> ids;
  ids.reserve(claims.size());
  for (const auto& claim : claims) ids.push_back(claim.id.uuid());
  const bool known = store_->any_known(session, ids);
  database_->queue(storage::queue_names::outbox).producer.enqueue_many(session, messages, known);
  if (consumer_->ack(session, owner_, claims, queue_.options().retain_done.count() > 0) !=
      claims.size()) {
    throw std::runtime_error("timers were lost while they fired");  // rolls their messages back
  }
}

void Timers::note_fired(std::span<const storage::ClaimedEntry> claimed) const {
  queue::EnqueuedCount enqueued;
  for (const auto& entry : claimed) {
    enqueued.add(entry.claimed.message.topic, true);
    const auto fired_at = entry.claimed.lease_until - lease_while_firing;
    metrics_.time("dovetail_timer_lateness_seconds",
                  std::max(fired_at - entry.ready_at, WallTime::duration{0}),
                  {{"store", database_->name()}});
  }
  enqueued.report(metrics_, database_->name(), storage::queue_names::outbox);
}

Timers::Fired Timers::fire_some(const std::stop_token& stop, int most) {
  core::require_batch_size("most", most);
  const auto after = marks_->get();
  const storage::ClaimOrder order{.owner = owner_,
                                  .batch_size = most,
                                  .lease = lease_while_firing,
                                  .max_attempts = endless_attempts,
                                  .after = after ? &*after : nullptr,
                                  .asks_next_due = true};
  Fired fired;
  std::vector<storage::ClaimedEntry> claimed;
  const auto sent_at = database_->clock().mono();
  database_->write({.service = true, .stop = stop}, [&](storage::WriteSession& session) {
    auto answer =
        consumer_->work(session, {.owner = owner_, .claims = {&order, 1}}).claimed.front();
    fired = {.count = answer.entries.size(), .next_due = answer.next_due};
    claimed = std::move(answer.entries);
    enqueue_fired(session, claimed);
  });
  const bool full = fired.count >= static_cast<std::size_t>(most);
  marks_->note(claimed, full);
  // A batch with marks does not read the timers before them: call again, from the front.
  fired.more = full || after.has_value();
  if (fired.next_due) {
    // Subtract the full time since the request, so that the result is early rather than late.
    *fired.next_due -=
        std::chrono::duration_cast<std::chrono::microseconds>(database_->clock().mono() - sent_at);
  }
  if (fired.count > 0) {
    note_fired(claimed);
    metrics_.count("dovetail_timers_fired_total", fired.count, {{"store", database_->name()}});
    log_.write(LogLevel::debug, "timers.fired",
               {{"store", database_->name()}, {"count", fired.count}});
  }
  return fired;
}

std::size_t Timers::fire_due(const std::stop_token& stop) {
  std::size_t total = 0;
  for (bool more = true; more && !stop.stop_requested();) {
    const auto fired = fire_some(stop);
    total += fired.count;
    more = fired.more;
  }
  return total;
}

}  // namespace dovetail
