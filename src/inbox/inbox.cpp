#include "dovetail/inbox.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/headers.hpp"
#include "core/require.hpp"
#include "core/text.hpp"
#include "inbox/rules.hpp"
#include "queue/new_messages.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/inbox_store.hpp"
#include "storage/portions.hpp"

namespace dovetail {
namespace {

using inbox::checked_error;
using inbox::checked_key;
using inbox::require_filter;
using inbox::require_hash;
using inbox::require_lease;
using storage::InboxArrival;
using storage::InboxFence;
using storage::InboxKey;

constexpr std::chrono::hours ten_years{24 * 3650};
constexpr std::string_view source_header = "dovetail-source";
constexpr std::string_view message_id_header = "dovetail-message-id";
constexpr std::string_view reserved_headers = "dovetail-";

InboxFence fence_of(const InboxTicket& ticket) {
  return {ticket.owner, ticket.epoch};
}

InboxArrival checked_arrival(const InboxRequest& request, const QueueOptions& options) {
  const auto key = checked_key(request.source, request.message_id);
  require_hash(request.hash);
  if (std::ranges::any_of(request.headers, [](const auto& header) {
        return std::string_view{header.first}.starts_with(reserved_headers);
      })) {
    throw std::invalid_argument("headers must not begin with dovetail-");
  }
  InboxArrival arrival{
      key, request.hash,
      queue::checked(queue::MessageParts{request.topic, request.payload, request.correlation_id,
                                         request.due_at, request.headers, request.expires_at,
                                         request.priority},
                     options)};
  auto headers = request.headers;
  headers.insert_or_assign(std::string{source_header}, request.source);
  headers.insert_or_assign(std::string{message_id_header}, request.message_id);
  arrival.message.headers = core::to_json(headers);
  return arrival;
}

/// Messages in the order of their keys, in which their rows are locked, and the way back.
struct Sorted {
  std::vector<InboxArrival> arrivals;
  std::vector<std::size_t> places;  // of each, among the requests
};

Sorted sorted(std::span<const InboxRequest> requests, const QueueOptions& options) {
  Sorted result;
  result.places.resize(requests.size());
  std::iota(result.places.begin(), result.places.end(), std::size_t{0});
  std::ranges::stable_sort(result.places, {}, [&](std::size_t place) {
    return InboxKey{requests[place].source, requests[place].message_id};
  });
  result.arrivals.reserve(requests.size());
  for (const auto place : result.places)
    result.arrivals.push_back(checked_arrival(requests[place], options));
  return result;
}

std::vector<InboxEnqueued> in_old_order(const Sorted& sorted,
                                        std::span<const InboxEnqueued> answers) {
  std::vector<InboxEnqueued> ordered(answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) ordered[sorted.places[i]] = answers[i];
  return ordered;
}

}  // namespace

std::string_view to_string(InboxStatus status) {
  switch (status) {
    case InboxStatus::seen:
      return "seen";
    case InboxStatus::processing:
      return "processing";
    case InboxStatus::processed:
      return "processed";
    case InboxStatus::dead:
      return "dead";
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
    case BeginOutcome::dead:
      return "dead";
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

InboxMessage InboxMessage::from(const Message& message) {
  InboxMessage result{.id = message.message_id,
                      .topic = message.topic,
                      .payload = message.payload,
                      .correlation_id = message.correlation_id,
                      .headers = message.headers,
                      .received_at = message.created_at,
                      .due_at = message.due_at,
                      .priority = message.priority,
                      .attempts = message.attempts};
  const auto take = [&](std::string_view name) -> std::string {
    const auto found = result.headers.find(name);
    if (found == result.headers.end()) return {};
    auto value = std::move(found->second);
    result.headers.erase(found);
    return value;
  };
  result.source = take(source_header);
  result.message_id = take(message_id_header);
  return result;
}

Inbox::Inbox(storage::Database& database, InboxOptions options, Logger log, Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::InboxStore>()),
      options_(options),
      log_(log),
      metrics_(metrics),
      queue_(database, storage::queues::inbox, options.queue, std::move(log), std::move(metrics)) {
  require_lease(options_.lease);
  if (options_.remember < std::chrono::seconds{1} || options_.remember > ten_years) {
    throw std::out_of_range("remember must be a second to ten years");
  }
  if (options_.stuck_after < std::chrono::milliseconds::zero() ||
      options_.stuck_after > ten_years) {
    throw std::out_of_range("stuck_after must be zero to ten years");
  }
}

void Inbox::note_mismatch(std::string_view source, std::string_view message_id) const {
  metrics_.count("inbox.hash_mismatch", 1, {{"store", database_->name()}, {"source", source}});
  log_.write(LogLevel::warn, "inbox.hash_mismatch",
             {{"store", database_->name()}, {"source", source}, {"message_id", message_id}});
}

// --- the guard

Begun Inbox::begin(std::string_view source, std::string_view message_id,
                   const BeginOptions& options, Transaction* transaction) {
  const auto key = checked_key(source, message_id);
  require_hash(options.hash);
  const auto lease = options.lease.value_or(options_.lease);
  require_lease(lease);
  const auto max_attempts = options.max_attempts.value_or(options_.queue.max_attempts);
  inbox::require_max_attempts(max_attempts);
  const storage::BeginOrder order{.hash = options.hash,
                                  .owner = OwnerToken::generate(),
                                  .lease = lease,
                                  .max_attempts = max_attempts};
  storage::BeginAnswer answer;
  const auto ask = [&](storage::WriteSession& session) {
    answer = store_->try_begin(session, key, order);
  };
  if (transaction != nullptr) {
    ask(transaction->session());
  } else {
    database_->write({.single_statement = true, .repeatable = true}, ask);
  }
  if (answer.outcome == BeginOutcome::hash_mismatch) note_mismatch(source, message_id);
  if (answer.gave_up && transaction != nullptr) {
    note_dead_at_commit(*transaction, key, inbox::lost_last_attempt);
  } else if (answer.gave_up) {
    note_dead(source, message_id, inbox::lost_last_attempt);
  }
  metrics_.count("inbox.begun", 1,
                 {{"store", database_->name()}, {"outcome", to_string(answer.outcome)}});
  log_.write(LogLevel::debug, "inbox.begun",
             {{"store", database_->name()},
              {"source", source},
              {"message_id", message_id},
              {"outcome", to_string(answer.outcome)}});
  Begun begun{.outcome = answer.outcome};
  if (begun.started()) {
    begun.ticket = {std::string{source}, std::string{message_id}, order.owner,
                    answer.epoch,        answer.lease_until,      answer.attempts};
  }
  return begun;
}

Begun Inbox::try_begin(std::string_view source, std::string_view message_id,
                       const BeginOptions& options) {
  return begin(source, message_id, options, nullptr);
}

Begun Inbox::try_begin(Transaction& transaction, std::string_view source,
                       std::string_view message_id, const BeginOptions& options) {
  return begin(source, message_id, options, &transaction);
}

namespace {

/// What a mark leaves behind, for the call that is made again because its answer was lost.
struct Mark {
  InboxKey key;
  InboxStatus status;
  std::optional<InboxFence> fence{};
};

/// Runs `mark(session)` in a transaction of its own.
template <class Run>
bool marked(storage::Database& database, const Mark& mark, const Run& run) {
  return storage::confirmed_write(database, {}, run, [&](storage::WriteSession& session) {
    return database.store<storage::InboxStore>().is_marked(session, mark.key, mark.status,
                                                           mark.fence);
  });
}

}  // namespace

bool Inbox::mark_processed(const InboxTicket& ticket) {
  const auto key = checked_key(ticket);
  const Mark mark{key, InboxStatus::processed, fence_of(ticket)};
  return marked(*database_, mark, [&](storage::WriteSession& session) {
    return store_->mark_processed(session, key, mark.fence);
  });
}

bool Inbox::mark_processed(Transaction& transaction, const InboxTicket& ticket) {
  return store_->mark_processed(transaction.session(), checked_key(ticket), fence_of(ticket));
}

bool Inbox::mark_dead(const InboxTicket& ticket, std::string_view reason) {
  const auto key = checked_key(ticket);
  const auto text = checked_error("reason", reason);
  const Mark mark{key, InboxStatus::dead, fence_of(ticket)};
  const bool done = marked(*database_, mark, [&](storage::WriteSession& session) {
    return store_->mark_dead(session, key, mark.fence, text);
  });
  if (done) note_dead(ticket.source, ticket.message_id, text);
  return done;
}

bool Inbox::mark_dead(Transaction& transaction, const InboxTicket& ticket,
                      std::string_view reason) {
  const auto key = checked_key(ticket);
  const auto text = checked_error("reason", reason);
  const bool done = store_->mark_dead(transaction.session(), key, fence_of(ticket), text);
  if (done) note_dead_at_commit(transaction, key, text);
  return done;
}

bool Inbox::release(const InboxTicket& ticket, std::string_view error) {
  const auto key = checked_key(ticket);
  const auto text = checked_error("error", error);
  const Mark mark{key, InboxStatus::seen, fence_of(ticket)};
  return marked(*database_, mark, [&](storage::WriteSession& session) {
    return store_->release(session, key, fence_of(ticket), text, 1);
  });
}

std::optional<WallTime> Inbox::renew(const InboxTicket& ticket, std::chrono::milliseconds lease) {
  const auto key = checked_key(ticket);
  require_lease(lease);
  std::optional<WallTime> until;
  database_->write({.single_statement = true, .repeatable = true},
                   [&](storage::WriteSession& session) {
                     until = store_->renew(session, key, fence_of(ticket), lease);
                   });
  return until;
}

bool Inbox::answer_seen(const storage::Sighting& seen, std::string_view source,
                        std::string_view message_id) const {
  if (!seen.hash_matches) {
    note_mismatch(source, message_id);
    throw HashMismatch("message " + std::string{message_id} + " of " + std::string{source} +
                       " was seen before with another content");
  }
  return seen.status == InboxStatus::processed;
}

bool Inbox::already_processed(std::string_view source, std::string_view message_id,
                              ContentHash hash) {
  const auto key = checked_key(source, message_id);
  require_hash(hash);
  storage::Sighting seen;
  database_->write({.single_statement = true, .repeatable = true},
                   [&](storage::WriteSession& session) { seen = store_->see(session, key, hash); });
  return answer_seen(seen, source, message_id);
}

bool Inbox::already_processed(Transaction& transaction, std::string_view source,
                              std::string_view message_id, ContentHash hash) {
  const auto key = checked_key(source, message_id);
  require_hash(hash);
  return answer_seen(store_->see(transaction.session(), key, hash), source, message_id);
}

bool Inbox::mark_processing(std::string_view source, std::string_view message_id) {
  const auto key = checked_key(source, message_id);
  bool done = false;
  database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
    done = store_->mark_processing(session, key, options_.lease);
  });
  return done;
}

bool Inbox::mark_processing(Transaction& transaction, std::string_view source,
                            std::string_view message_id) {
  const auto key = checked_key(source, message_id);
  return store_->mark_processing(transaction.session(), key, options_.lease);
}

bool Inbox::mark_processed(std::string_view source, std::string_view message_id) {
  const auto key = checked_key(source, message_id);
  return marked(*database_, {key, InboxStatus::processed}, [&](storage::WriteSession& session) {
    return store_->mark_processed(session, key, std::nullopt);
  });
}

bool Inbox::mark_processed(Transaction& transaction, std::string_view source,
                           std::string_view message_id) {
  return store_->mark_processed(transaction.session(), checked_key(source, message_id),
                                std::nullopt);
}

bool Inbox::mark_dead(std::string_view source, std::string_view message_id,
                      std::string_view reason) {
  const auto key = checked_key(source, message_id);
  const auto text = checked_error("reason", reason);
  const bool done =
      marked(*database_, {key, InboxStatus::dead}, [&](storage::WriteSession& session) {
        return store_->mark_dead(session, key, std::nullopt, text);
      });
  if (done) note_dead(source, message_id, text);
  return done;
}

bool Inbox::mark_dead(Transaction& transaction, std::string_view source,
                      std::string_view message_id, std::string_view reason) {
  const auto key = checked_key(source, message_id);
  const auto text = checked_error("reason", reason);
  const bool done = store_->mark_dead(transaction.session(), key, std::nullopt, text);
  if (done) note_dead_at_commit(transaction, key, text);
  return done;
}

void Inbox::note_dead(std::string_view source, std::string_view message_id,
                      std::string_view reason) const {
  metrics_.count("inbox.dead", 1, {{"store", database_->name()}, {"source", source}});
  log_.write(LogLevel::warn, "inbox.dead",
             {{"store", database_->name()},
              {"source", source},
              {"message_id", message_id},
              {"error", core::printable(reason)}});
}

void Inbox::note_dead_at_commit(Transaction& transaction, const InboxKey& key,
                                std::string_view reason) const {
  transaction.after_commit([this, source = std::string{key.source},
                            id = std::string{key.message_id},
                            why = std::string{reason}] { note_dead(source, id, why); });
}

// --- the queue

void Inbox::note_enqueued(const InboxArrival& arrival, const InboxEnqueued& answer) const {
  if (answer.outcome == InboxEnqueueOutcome::hash_mismatch) {
    note_mismatch(arrival.key.source, arrival.key.message_id);
    return;
  }
  metrics_.count(answer.stored() ? "inbox.enqueued" : "inbox.duplicates", 1,
                 {{"store", database_->name()}, {"topic", arrival.message.topic}});
  if (!log_.enabled(LogLevel::info)) return;
  log_.write(LogLevel::info, answer.stored() ? "inbox.enqueued" : "inbox.duplicate",
             {{"store", database_->name()},
              {"topic", arrival.message.topic},
              {"source", arrival.key.source},
              {"message_id", arrival.key.message_id}});
}

InboxEnqueued Inbox::enqueue(const InboxRequest& request) {
  return enqueue_many(std::span{&request, 1}).front();
}

InboxEnqueued Inbox::enqueue(Transaction& transaction, const InboxRequest& request) {
  return enqueue_many(transaction, std::span{&request, 1}).front();
}

std::vector<InboxEnqueued> Inbox::enqueue_many(std::span<const InboxRequest> requests) {
  const auto batch = sorted(requests, options_.queue);
  if (batch.arrivals.empty()) return {};
  std::vector<InboxEnqueued> answers;
  database_->write({.single_statement = requests.size() == 1, .repeatable = true},
                   [&](storage::WriteSession& session) {
                     answers =
                         store_->receive(session, batch.arrivals, storage::Announcement::later);
                   });
  for (std::size_t i = 0; i < answers.size(); ++i) note_enqueued(batch.arrivals[i], answers[i]);
  if (std::ranges::any_of(answers, &InboxEnqueued::stored)) database_->announce();
  return in_old_order(batch, answers);
}

std::vector<InboxEnqueued> Inbox::enqueue_many(Transaction& transaction,
                                               std::span<const InboxRequest> requests) {
  const auto batch = sorted(requests, options_.queue);
  if (batch.arrivals.empty()) return {};
  const auto answers =
      store_->receive(transaction.session(), batch.arrivals, queue::announcement_in(transaction));
  for (std::size_t i = 0; i < answers.size(); ++i) note_enqueued(batch.arrivals[i], answers[i]);
  if (std::ranges::any_of(answers, &InboxEnqueued::stored)) transaction.announce_at_commit();
  return in_old_order(batch, answers);
}

// --- operating

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
    counts.queue = database_->queue(storage::queues::inbox).operations.counts(session);
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
  // Not those that die again while we are at it.
  auto bounded = filter;
  database_->read([&](storage::ReadSession& session) {
    const auto now = database_->queue(storage::queues::outbox).operations.now(session) +
                     std::chrono::microseconds{1};
    bounded.failed_before = std::min(now, filter.failed_before.value_or(now));
  });
  std::size_t total = 0;
  for (std::size_t count = 1; count > 0; total += count) {
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = store_->replay(session, bounded, checked, storage::portion);
    });
  }
  metrics_.count("inbox.replayed", total, {{"store", database_->name()}});
  log_.write(LogLevel::info, "inbox.replayed",
             {{"store", database_->name()},
              {"count", total},
              {"reason", core::printable(checked.reason)}});
  if (total > 0) database_->announce();
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
  metrics_.count("inbox.purged", total, {{"store", database_->name()}});
  if (total > 0) {
    log_.write(LogLevel::info, "inbox.purged", {{"store", database_->name()}, {"count", total}});
  }
  return total;
}

}  // namespace dovetail
