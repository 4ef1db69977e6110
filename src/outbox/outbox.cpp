#include "dovetail/outbox.hpp"

#include <algorithm>

#include "outbox/enqueued_batch.hpp"
#include "outbox/store_messages.hpp"
#include "queue/group_commit.hpp"
#include "queue/new_messages.hpp"
#include "storage/database.hpp"
#include "storage/queue_names.hpp"
#include "storage/queue_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {

using queue::checked;
using storage::after_commit;
using storage::session_of;
using Outcome = queue::GroupCommit::Outcome;

Outbox::Outbox(storage::Database& database, QueueOptions options, Logger log, Metrics metrics)
    : WorkQueue(database, storage::queue_names::outbox, options, std::move(log),
                std::move(metrics)),
      producer_(&database.queue(storage::queue_names::outbox).producer),
      group_commit_(std::make_shared<queue::GroupCommit>(database, *producer_,
                                                         std::string{storage::queue_names::outbox},
                                                         this->log(), this->metrics())) {}

Enqueued Outbox::enqueue(const EnqueueRequest& request) {
  if (!request.joins.empty()) return enqueue_many(std::span{&request, 1}).front();
  const auto since = std::chrono::steady_clock::now();
  auto message = checked(request, options());
  message.lasts = true;
  auto outcome = Outcome::not_stored;
  if (group_commit_->takes(message)) outcome = group_commit_->store(message);
  const auto answer = outcome == Outcome::stored
                          ? Enqueued{message.id, true}
                          : store_alone(message, outcome == Outcome::in_doubt, since);
  note_enqueued(message.topic, message.id, message.correlation_id.value_or(""), answer.stored());
  return answer;
}

Enqueued Outbox::store_alone(storage::NewMessage& message, bool in_doubt,
                             std::chrono::steady_clock::time_point since) {
  Enqueued answer;
  const bool fresh = message.fresh;
  database().write({.single_statement = true, .repeatable = true, .since = since},
                   [&](storage::WriteSession& session, const storage::Attempt& attempt) {
                     const bool repeated = in_doubt || attempt.after_doubt;
                     message.fresh = fresh && !repeated;
                     answer = producer_->enqueue(session, message);
                     if (!repeated || !fresh || answer != message.id) return;
                     answer = {message.id, true};  // an earlier attempt of this call has stored it
                     session.wakes(storage::queue_names::outbox);
                   });
  return answer;
}

Enqueued Outbox::enqueue(Transaction& transaction, const EnqueueRequest& request) {
  if (!request.joins.empty()) return enqueue_many(transaction, std::span{&request, 1}).front();
  const auto message = checked(request, options());
  const auto answer = producer_->enqueue(session_of(transaction), message);
  after_commit(transaction,
               [this, topic = request.topic, id = message.id,
                correlation_id = request.correlation_id.value_or(""),
                stored = answer.stored()] { note_enqueued(topic, id, correlation_id, stored); });
  return answer;
}

std::vector<Enqueued> Outbox::enqueue_many(std::span<const EnqueueRequest> requests) {
  const auto messages = checked(requests, options());
  if (messages.empty()) return {};
  std::vector<Enqueued> answers;
  database().write(
      {.repeatable = true}, [&](storage::WriteSession& session, const storage::Attempt& attempt) {
        answers = outbox::store(database(), session, requests, messages, attempt.after_doubt);
        queue::count_own_as_stored(answers, messages, attempt);
      });
  note_enqueued_many(batch_of(requests, answers));
  return answers;
}

std::vector<Enqueued> Outbox::enqueue_many(Transaction& transaction,
                                           std::span<const EnqueueRequest> requests) {
  const auto messages = checked(requests, options());
  if (messages.empty()) return {};
  auto answers = outbox::store(database(), session_of(transaction), requests, messages, false);
  after_commit(transaction,
               [this, batch = batch_of(requests, answers)] { note_enqueued_many(batch); });
  return answers;
}

void Outbox::note_enqueued(std::string_view topic, MessageId id, std::string_view correlation_id,
                           bool stored) const {
  metrics().count(stored ? "dovetail_enqueued_total" : "dovetail_duplicates_total", 1,
                  {{"store", database().name()}, {"queue", name()}, {"topic", topic}});
  if (!log().enabled(LogLevel::info)) return;
  log().write(LogLevel::info, stored ? "outbox.enqueued" : "outbox.duplicate",
              {{"store", database().name()},
               {"topic", topic},
               {"message_id", id.to_string()},
               {"correlation_id", correlation_id}});
}

Outbox::EnqueuedBatch Outbox::batch_of(std::span<const EnqueueRequest> requests,
                                       std::span<const Enqueued> answers) const {
  EnqueuedBatch batch;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    batch.count.add(requests[i].topic, answers[i].stored());
  }
  if (!log().enabled(LogLevel::debug)) return batch;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (const auto& join : requests[i].joins) batch.attached.emplace_back(join, answers[i]);
  }
  return batch;
}

void Outbox::note_enqueued_many(const EnqueuedBatch& batch) const {
  for (const auto& [join, message] : batch.attached) {
    log().write(LogLevel::debug, "join.attached",
                {{"store", database().name()},
                 {"join_id", join.to_string()},
                 {"message_id", message.to_string()}});
  }
  batch.count.report(metrics(), database().name(), name());
  log().write(LogLevel::info, "outbox.enqueued_many",
              {{"store", database().name()},
               {"count", batch.count.stored()},
               {"duplicates", batch.count.duplicates()}});
}

}  // namespace dovetail
