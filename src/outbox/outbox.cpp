#include "dovetail/outbox.hpp"

#include <algorithm>

#include "outbox/store_messages.hpp"
#include "queue/new_messages.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"

namespace dovetail {

using queue::announcement_in;
using queue::checked;
using storage::Announcement;

Outbox::Outbox(storage::Database& database, QueueOptions options, Logger log, Metrics metrics)
    : WorkQueue(database, storage::queues::outbox, options, std::move(log), std::move(metrics)),
      producer_(&database.queue(storage::queues::outbox).producer) {}

Enqueued Outbox::enqueue(const EnqueueRequest& request) {
  if (!request.joins.empty()) return enqueue_many(std::span{&request, 1}).front();
  auto message = checked(request, options());
  message.lasts = true;
  Enqueued answer;
  const bool fresh = message.fresh;
  const bool inside = fresh && !message.unique_key && database().announces_inside();
  bool again = false;
  database().write({.single_statement = true, .repeatable = true},
                   [&](storage::WriteSession& session) {
                     const bool repeated = std::exchange(again, true);
                     message.fresh = fresh && !repeated;
                     answer = producer_->enqueue(
                         session, message, inside ? Announcement::inside : Announcement::later);
                     // A second run finds what the first one stored without being told: that was
                     // this call's doing.
                     if (repeated && fresh && answer == message.id) answer = {message.id, true};
                   });
  note_enqueued(message, answer.stored());
  const bool announced = inside && message.fresh;  // not by a second run
  if (answer.stored() && announced) database().doorbell().ring();
  if (answer.stored() && !announced) database().announce();
  return answer;
}

Enqueued Outbox::enqueue(Transaction& transaction, const EnqueueRequest& request) {
  if (!request.joins.empty()) return enqueue_many(transaction, std::span{&request, 1}).front();
  const auto message = checked(request, options());
  const auto answer =
      producer_->enqueue(transaction.session(), message, announcement_in(transaction));
  if (answer.stored()) transaction.announce_at_commit();
  note_enqueued(message, answer.stored());
  return answer;
}

std::vector<Enqueued> Outbox::enqueue_many(std::span<const EnqueueRequest> requests) {
  const auto messages = checked(requests, options());
  if (messages.empty()) return {};
  std::vector<Enqueued> answers;
  bool again = false;
  database().write({.repeatable = true}, [&](storage::WriteSession& session) {
    const bool repeated = std::exchange(again, true);
    answers = outbox::store(database(), session, requests, messages, repeated, Announcement::later);
    if (!repeated) return;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].fresh && answers[i] == messages[i].id) answers[i] = {messages[i].id, true};
    }
  });
  note_enqueued_many(requests, answers);
  database().announce();
  return answers;
}

std::vector<Enqueued> Outbox::enqueue_many(Transaction& transaction,
                                           std::span<const EnqueueRequest> requests) {
  const auto messages = checked(requests, options());
  if (messages.empty()) return {};
  auto answers = outbox::store(database(), transaction.session(), requests, messages, false,
                               announcement_in(transaction));
  transaction.announce_at_commit();
  note_enqueued_many(requests, answers);
  return answers;
}

void Outbox::note_enqueued(const storage::NewMessage& message, bool stored) const {
  metrics().count(stored ? "outbox.enqueued" : "outbox.duplicates", 1,
                  {{"store", database().name()}, {"topic", message.topic}});
  if (!log().enabled(LogLevel::info)) return;
  log().write(LogLevel::info, stored ? "outbox.enqueued" : "outbox.duplicate",
              {{"store", database().name()},
               {"topic", message.topic},
               {"message_id", message.id.to_string()},
               {"correlation_id", message.correlation_id.value_or("")}});
}

void Outbox::note_enqueued_many(std::span<const EnqueueRequest> requests,
                                std::span<const Enqueued> answers) const {
  if (log().enabled(LogLevel::debug)) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (const auto& join : requests[i].joins) {
        log().write(LogLevel::debug, "join.attached",
                    {{"store", database().name()},
                     {"join_id", join.to_string()},
                     {"message_id", answers[i].to_string()}});
      }
    }
  }
  const auto stored = static_cast<std::size_t>(std::ranges::count_if(answers, &Enqueued::stored));
  metrics().count("outbox.enqueued", stored, {{"store", database().name()}});
  metrics().count("outbox.duplicates", answers.size() - stored, {{"store", database().name()}});
  log().write(
      LogLevel::info, "outbox.enqueued_many",
      {{"store", database().name()}, {"count", stored}, {"duplicates", answers.size() - stored}});
}

}  // namespace dovetail
