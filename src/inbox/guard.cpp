// The guard of the inbox. It records which messages are seen, in processing, processed or dead
// letters.
#include <utility>

#include "core/text.hpp"
#include "dovetail/inbox.hpp"
#include "inbox/rules.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/inbox_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

using inbox::checked_error;
using inbox::checked_key;
using inbox::require_hash;
using storage::after_commit;
using storage::InboxFence;
using storage::InboxKey;
using storage::session_of;

InboxFence fence_of(const InboxTicket& ticket) {
  return {ticket.owner, ticket.epoch};
}

/// The state after a mark. A call that is retried because its answer was lost finds this state.
struct Mark {
  InboxKey key;
  InboxStatus status;
  std::optional<InboxFence> fence{};
};

/// Runs `run(session)`, which sets the mark, in a transaction of its own.
template <class Run>
bool marked(storage::Database& database, const Mark& mark, const Run& run) {
  return storage::confirmed_write(database, {}, run, [&](storage::WriteSession& session) {
    return database.store<storage::InboxStore>().is_marked(session, mark.key, mark.status,
                                                           mark.fence);
  });
}

}  // namespace

void Inbox::note_begun(const InboxKey& key, BeginOutcome outcome, bool gave_up) const {
  if (gave_up) note_given_up(key.source, key.message_id, inbox::lost_last_attempt);
  metrics_.count("dovetail_inbox_begun_total", 1,
                 {{"store", database_->name()}, {"outcome", to_string(outcome)}});
  log_.write(LogLevel::debug, "inbox.begun",
             {{"store", database_->name()},
              {"source", key.source},
              {"message_id", key.message_id},
              {"outcome", to_string(outcome)}});
}

Begun Inbox::begin(std::string_view source, std::string_view message_id,
                   const BeginOptions& options, Transaction* transaction) {
  const auto key = checked_key(source, message_id);
  require_hash(options.hash);
  const auto lease = options.lease.value_or(options_.lease);
  inbox::require_lease(lease);
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
    ask(session_of(*transaction));
  } else {
    database_->write({.single_statement = true, .repeatable = true}, ask);
  }
  if (answer.outcome == BeginOutcome::hash_mismatch) note_mismatch(key.source, key.message_id);
  if (transaction == nullptr) {
    note_begun(key, answer.outcome, answer.gave_up);
  } else {
    after_commit(*transaction, [this, source = std::string{source}, id = std::string{message_id},
                                outcome = answer.outcome, gave_up = answer.gave_up] {
      note_begun(InboxKey{source, id}, outcome, gave_up);
    });
  }
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

bool Inbox::mark_processed(const InboxTicket& ticket) {
  const auto key = checked_key(ticket);
  const Mark mark{key, InboxStatus::processed, fence_of(ticket)};
  return marked(*database_, mark, [&](storage::WriteSession& session) {
    return store_->mark_processed(session, key, mark.fence);
  });
}

bool Inbox::mark_processed(Transaction& transaction, const InboxTicket& ticket) {
  return store_->mark_processed(session_of(transaction), checked_key(ticket), fence_of(ticket));
}

bool Inbox::mark_dead(const InboxTicket& ticket, std::string_view reason) {
  const auto key = checked_key(ticket);
  const auto text = checked_error("reason", reason);
  const Mark mark{key, InboxStatus::dead_letter, fence_of(ticket)};
  const bool done = marked(*database_, mark, [&](storage::WriteSession& session) {
    return store_->mark_dead(session, key, mark.fence, text);
  });
  if (done) note_given_up(ticket.source, ticket.message_id, text);
  return done;
}

bool Inbox::mark_dead(Transaction& transaction, const InboxTicket& ticket,
                      std::string_view reason) {
  const auto key = checked_key(ticket);
  const auto text = checked_error("reason", reason);
  const bool done = store_->mark_dead(session_of(transaction), key, fence_of(ticket), text);
  if (done) note_given_up_at_commit(transaction, key, text);
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
  inbox::require_lease(lease);
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
  database_->write(
      {.single_statement = true, .repeatable = true},
      [&](storage::WriteSession& session) { seen = store_->record_sighting(session, key, hash); });
  return answer_seen(seen, source, message_id);
}

bool Inbox::already_processed(Transaction& transaction, std::string_view source,
                              std::string_view message_id, ContentHash hash) {
  const auto key = checked_key(source, message_id);
  require_hash(hash);
  return answer_seen(store_->record_sighting(session_of(transaction), key, hash), source,
                     message_id);
}

bool Inbox::mark_processing(std::string_view source, std::string_view message_id) {
  const auto key = checked_key(source, message_id);
  std::optional<InboxStatus> status;
  database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
    status = store_->mark_processing(session, key, options_.lease, options_.queue.max_attempts);
  });
  if (status == InboxStatus::dead_letter)
    note_given_up(source, message_id, inbox::lost_last_attempt);
  return status == InboxStatus::processing;
}

bool Inbox::mark_processing(Transaction& transaction, std::string_view source,
                            std::string_view message_id) {
  const auto key = checked_key(source, message_id);
  const auto status = store_->mark_processing(session_of(transaction), key, options_.lease,
                                              options_.queue.max_attempts);
  if (status == InboxStatus::dead_letter) {
    note_given_up_at_commit(transaction, key, inbox::lost_last_attempt);
  }
  return status == InboxStatus::processing;
}

bool Inbox::mark_processed(std::string_view source, std::string_view message_id) {
  const auto key = checked_key(source, message_id);
  return marked(*database_, {key, InboxStatus::processed}, [&](storage::WriteSession& session) {
    return store_->mark_processed(session, key, std::nullopt);
  });
}

bool Inbox::mark_processed(Transaction& transaction, std::string_view source,
                           std::string_view message_id) {
  return store_->mark_processed(session_of(transaction), checked_key(source, message_id),
                                std::nullopt);
}

bool Inbox::mark_dead(std::string_view source, std::string_view message_id,
                      std::string_view reason) {
  const auto key = checked_key(source, message_id);
  const auto text = checked_error("reason", reason);
  const bool done =
      marked(*database_, {key, InboxStatus::dead_letter}, [&](storage::WriteSession& session) {
        return store_->mark_dead(session, key, std::nullopt, text);
      });
  if (done) note_given_up(source, message_id, text);
  return done;
}

bool Inbox::mark_dead(Transaction& transaction, std::string_view source,
                      std::string_view message_id, std::string_view reason) {
  const auto key = checked_key(source, message_id);
  const auto text = checked_error("reason", reason);
  const bool done = store_->mark_dead(session_of(transaction), key, std::nullopt, text);
  if (done) note_given_up_at_commit(transaction, key, text);
  return done;
}

void Inbox::note_given_up(std::string_view source, std::string_view message_id,
                          std::string_view reason) const {
  metrics_.count("dovetail_inbox_given_up_total", 1,
                 {{"store", database_->name()}, {"source", source}});
  log_.write(LogLevel::warn, "inbox.given_up",
             {{"store", database_->name()},
              {"source", source},
              {"message_id", message_id},
              {"error", core::printable(reason)}});
}

void Inbox::note_given_up_at_commit(Transaction& transaction, const InboxKey& key,
                                    std::string_view reason) const {
  after_commit(transaction,
               [this, source = std::string{key.source}, id = std::string{key.message_id},
                why = std::string{reason}] { note_given_up(source, id, why); });
}

}  // namespace dovetail
