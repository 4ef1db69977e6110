// Enqueues messages into the inbox, and converts claimed messages.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/headers.hpp"
#include "dovetail/inbox.hpp"
#include "inbox/access.hpp"
#include "inbox/rules.hpp"
#include "queue/new_messages.hpp"
#include "storage/database.hpp"
#include "storage/inbox_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

using inbox::checked_arrival;
using inbox::checked_key;
using inbox::require_hash;
using storage::after_commit;
using storage::InboxArrival;
using storage::InboxKey;
using storage::session_of;

constexpr std::string_view source_header = "dovetail-source";
constexpr std::string_view message_id_header = "dovetail-message-id";
constexpr std::string_view reserved_headers = "dovetail-";

/// Messages sorted by key, so that all calls lock rows in the same order. A call with streams keeps
/// its own order. After a deadlock, the call is retried.
struct Sorted {
  std::vector<InboxArrival> arrivals;
  std::vector<std::size_t> places;  // the index of each arrival in the requests
};

Sorted sorted(std::span<const InboxRequest> requests, const QueueOptions& options) {
  Sorted result;
  result.places.resize(requests.size());
  std::iota(result.places.begin(), result.places.end(), std::size_t{0});
  const bool has_streams = std::ranges::any_of(
      requests, [](const InboxRequest& each) { return each.stream.has_value(); });
  if (!has_streams) {
    std::ranges::stable_sort(result.places, {}, [&](std::size_t place) {
      return InboxKey{requests[place].source, requests[place].message_id};
    });
  }
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

InboxArrival inbox::checked_arrival(const InboxRequest& request, const QueueOptions& options) {
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
  queue::set_stream(arrival.message, request.stream);
  // With the context of its trace, if it has one.
  auto headers =
      arrival.message.headers ? core::headers_from_json(*arrival.message.headers) : Headers{};
  headers.insert_or_assign(std::string{source_header}, request.source);
  headers.insert_or_assign(std::string{message_id_header}, request.message_id);
  arrival.message.headers = core::to_json(headers);
  return arrival;
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
                      .attempts = message.attempts,
                      .stream = message.stream,
                      .stages = message.stages};
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

void Inbox::note_enqueued(std::string_view topic, const InboxKey& key, bool stored) const {
  metrics_.count(
      stored ? "dovetail_enqueued_total" : "dovetail_duplicates_total", 1,
      {{"store", database_->name()}, {"queue", storage::queue_names::inbox}, {"topic", topic}});
  if (!log_.enabled(LogLevel::info)) return;
  log_.write(LogLevel::info, stored ? "inbox.enqueued" : "inbox.duplicate",
             {{"store", database_->name()},
              {"topic", topic},
              {"source", key.source},
              {"message_id", key.message_id}});
}

/// With a transaction, notes the arrivals after its commit. A mismatch is noted at once.
void Inbox::note_arrivals(std::span<const InboxArrival> arrivals,
                          std::span<const InboxEnqueued> answers, Transaction* transaction) const {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& [key, hash, message] = arrivals[i];
    const bool stored = answers[i].stored();
    if (answers[i].outcome == InboxEnqueueOutcome::hash_mismatch) {
      note_mismatch(key.source, key.message_id);
    } else if (transaction == nullptr) {
      note_enqueued(message.topic, key, stored);
    } else {
      after_commit(*transaction,
                   [this, topic = std::string{message.topic}, source = std::string{key.source},
                    id = std::string{key.message_id}, stored] {
                     note_enqueued(topic, InboxKey{source, id}, stored);
                   });
    }
  }
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
  database_->write(
      {.single_statement = requests.size() == 1, .repeatable = true},
      [&](storage::WriteSession& session) { answers = store_->receive(session, batch.arrivals); });
  note_arrivals(batch.arrivals, answers, nullptr);
  return in_old_order(batch, answers);
}

std::vector<InboxEnqueued> Inbox::enqueue_many(Transaction& transaction,
                                               std::span<const InboxRequest> requests) {
  const auto batch = sorted(requests, options_.queue);
  if (batch.arrivals.empty()) return {};
  const auto answers = store_->receive(session_of(transaction), batch.arrivals);
  note_arrivals(batch.arrivals, answers, &transaction);
  return in_old_order(batch, answers);
}

// --- the consumers of brokers

std::optional<std::string> InboxAccess::refusal(const Inbox& inbox, const InboxRequest& request) {
  try {
    static_cast<void>(checked_arrival(request, queue::limits_of(inbox.options_.queue)));
  } catch (const std::logic_error& error) {  // std::invalid_argument or std::out_of_range
    return error.what();
  }
  return std::nullopt;
}

std::vector<InboxEnqueued> InboxAccess::receive(Inbox& inbox,
                                                std::span<const inbox::Arrival> arrivals,
                                                const std::stop_token& stop) {
  std::vector<InboxRequest> requests;
  requests.reserve(arrivals.size());
  for (const auto& each : arrivals) requests.push_back(each.request);
  const auto batch = sorted(requests, inbox.options_.queue);
  if (batch.arrivals.empty()) return {};
  std::vector<InboxEnqueued> answers;
  inbox.database_->write({.repeatable = true, .service = true, .stop = stop},
                         [&](storage::WriteSession& session) {
                           answers = inbox.store_->receive(session, batch.arrivals);
                           for (std::size_t i = 0; i < answers.size(); ++i) {
                             const auto& problem = arrivals[batch.places[i]].problem;
                             if (!problem || !answers[i].stored() || !answers[i].id) continue;
                             inbox.store_->fail_stored(session, *answers[i].id, *problem);
                           }
                         });
  inbox.note_arrivals(batch.arrivals, answers, nullptr);
  return in_old_order(batch, answers);
}

}  // namespace dovetail
