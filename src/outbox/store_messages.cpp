#include "outbox/store_messages.hpp"

#include <algorithm>

#include "dovetail/error.hpp"
#include "storage/database.hpp"

namespace dovetail::outbox {

void require_joins(storage::Database& database, storage::WriteSession& session,
                   std::span<const JoinId> joins) {
  if (joins.empty()) return;
  if (const auto missing = database.store<storage::JoinStore>().missing(session, joins)) {
    throw InvalidOperation("join " + missing->to_string() + " does not exist");
  }
}

void attach(storage::Database& database, storage::WriteSession& session,
            std::span<const storage::Membership> members) {
  const auto answer = database.store<storage::JoinStore>().attach(session, members, true);
  if (answer.missing)
    throw InvalidOperation("join " + answer.missing->to_string() + " does not exist");
  if (answer.unknown) {
    throw InvalidOperation(
        "message " + answer.unknown->to_string() +
        " was there already, ended at this moment and is not kept: enqueue it again");
  }
}

std::vector<Enqueued> store(storage::Database& database, storage::WriteSession& session,
                            std::span<const EnqueueRequest> requests,
                            std::span<const storage::NewMessage> messages, bool repeated) {
  std::vector<JoinId> joins;
  for (const auto& request : requests)
    joins.insert(joins.end(), request.joins.begin(), request.joins.end());
  std::ranges::sort(joins);
  joins.erase(std::unique(joins.begin(), joins.end()), joins.end());
  require_joins(database, session, joins);  // before the first write
  auto answers = database.queue(storage::queue_names::outbox)
                     .producer.enqueue_many(session, messages, repeated);
  if (joins.empty()) return answers;
  std::vector<storage::Membership> members;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (const auto& join : requests[i].joins) members.push_back({join, answers[i]});
  }
  attach(database, session, members);
  return answers;
}

}  // namespace dovetail::outbox
