#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "core/headers.hpp"
#include "core/require.hpp"
#include "dovetail/schedule.hpp"
#include "queue/new_messages.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"
#include "storage/timer_store.hpp"

namespace dovetail {
namespace {

/// Nobody sees it: what is claimed fires in the same transaction, or not at all. Longer than that
/// can last.
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

std::size_t stored_of(std::span<const Enqueued> answers) {
  return static_cast<std::size_t>(std::ranges::count_if(answers, &Enqueued::stored));
}

/// What a timer becomes.
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

/// A crowd is fired from where the last batch ended: an index keeps what has fired for a while, and
/// each batch would walk over all of it.
struct Timers::Marks {
  std::mutex mutex;
  std::optional<storage::QueueMarks> after;

  std::optional<storage::QueueMarks> get() {
    const std::lock_guard lock(mutex);
    return after;
  }
  /// After a batch that was not full the next look is at all of them again.
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
      producer_(&database.queue(storage::queues::timers).producer),
      consumer_(&database.queue(storage::queues::timers).consumer),
      log_(log),
      metrics_(metrics),
      queue_(database, storage::queues::timers, options, std::move(log), std::move(metrics)),
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
  bool again = false;
  database_->write({.repeatable = true}, [&](storage::WriteSession& session) {
    const bool repeated = std::exchange(again, true);
    answers = producer_->enqueue_many(session, checked, repeated, storage::Announcement::later);
    for (std::size_t i = 0; repeated && i < checked.size(); ++i) {
      if (checked[i].fresh && answers[i] == checked[i].id) answers[i] = {checked[i].id, true};
    }
  });
  metrics_.count("timers.scheduled", stored_of(answers), {{"store", database_->name()}});
  database_->announce_schedule();
  return as_timers(answers);
}

std::vector<ScheduledTimer> Timers::schedule_many(Transaction& transaction,
                                                  std::span<const TimerRequest> requests) {
  const auto messages = as_messages(requests);
  const auto checked = queue::checked(messages, queue_.options());
  if (checked.empty()) return {};
  const auto answers = producer_->enqueue_many(transaction.session(), checked, false,
                                               queue::announcement_in(transaction));
  metrics_.count("timers.scheduled", stored_of(answers), {{"store", database_->name()}});
  transaction.announce_schedule_at_commit();
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
  return store_->cancel(transaction.session(), timer);
}

bool Timers::move(TimerId timer, const storage::NewTime& time) {
  bool found = false;
  database_->write(
      {.single_statement = true, .repeatable = true},
      [&](storage::WriteSession& session) { found = store_->reschedule(session, timer, time); });
  if (found) database_->announce_schedule();
  return found;
}

bool Timers::move(Transaction& transaction, TimerId timer, const storage::NewTime& time) {
  const bool found = store_->reschedule(transaction.session(), timer, time);
  if (found) transaction.announce_schedule_at_commit();
  return found;
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

std::optional<Timer> Timers::get(TimerId timer) {
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
  const auto sent_at = std::chrono::steady_clock::now();
  database_->write({.service = true, .stop = stop}, [&](storage::WriteSession& session) {
    auto answer =
        consumer_->work(session, {.owner = owner_, .claims = {&order, 1}}).claimed.front();
    fired = {.count = answer.entries.size(), .next_due = answer.next_due};
    claimed = std::move(answer.entries);
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
    // A message of this id may be there, or may have been, by a processor of the user's: then they
    // are stored with care.
    std::vector<Uuid> ids;
    ids.reserve(claims.size());
    for (const auto& claim : claims) ids.push_back(claim.id.uuid());
    const bool known = store_->any_known(session, ids);
    database_->queue(storage::queues::outbox)
        .producer.enqueue_many(session, messages, known, storage::Announcement::later);
    if (consumer_->ack(session, owner_, claims, queue_.options().retain_done.count() > 0) !=
        claims.size()) {
      throw std::runtime_error("timers were lost while they fired");  // rolls their messages back
    }
  });
  const bool full = fired.count >= static_cast<std::size_t>(most);
  marks_->note(claimed, full);
  // With marks, only what lies behind them was looked at: look again, from the start.
  fired.more = full || after.has_value();
  if (fired.next_due) {
    // Early rather than late: counted from when we asked.
    *fired.next_due -= std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - sent_at);
  }
  if (fired.count > 0) {
    metrics_.count("timers.fired", fired.count, {{"store", database_->name()}});
    log_.write(LogLevel::debug, "timers.fired",
               {{"store", database_->name()}, {"count", fired.count}});
    database_->announce();
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
