// Inbox::process(): handle and mark in one transaction.
#include <stdexcept>

#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "dovetail/handler.hpp"
#include "dovetail/inbox.hpp"
#include "inbox/rules.hpp"
#include "storage/database.hpp"
#include "storage/inbox_store.hpp"
#include "storage/lent_transaction.hpp"
#include "storage/retry.hpp"

namespace dovetail {
namespace {

/// Nobody can take what an open transaction holds: its lease has only to be longer than that can last.
constexpr std::chrono::hours while_it_is_open{24 * 365};

ProcessOutcome outcome_of(BeginOutcome outcome) {
  switch (outcome) {
    case BeginOutcome::started:
      return ProcessOutcome::handled;
    case BeginOutcome::in_progress:
      return ProcessOutcome::in_progress;
    case BeginOutcome::processed:
      return ProcessOutcome::processed;
    case BeginOutcome::dead:
      return ProcessOutcome::dead;
    case BeginOutcome::hash_mismatch:
      return ProcessOutcome::hash_mismatch;
  }
  return ProcessOutcome::in_progress;
}

/// The database's doing, not the handler's: that costs no attempt.
bool is_of_the_world(const std::exception& failure) {
  const auto* error = dynamic_cast<const Error*>(&failure);
  return error != nullptr && (error->is_transient() || error->is_in_doubt());
}

}  // namespace

std::string_view to_string(ProcessOutcome outcome) {
  switch (outcome) {
    case ProcessOutcome::handled:
      return "handled";
    case ProcessOutcome::in_progress:
      return "in_progress";
    case ProcessOutcome::processed:
      return "processed";
    case ProcessOutcome::dead:
      return "dead";
    case ProcessOutcome::hash_mismatch:
      return "hash_mismatch";
  }
  return "unknown";
}

ProcessOutcome Inbox::process_once(const storage::InboxKey& key, OwnerToken owner, ContentHash hash,
                                   const std::function<void(Transaction& transaction)>& handler) {
  const auto transaction = database_->begin();
  auto& session = transaction->session();
  const auto begun =
      database_->inbox().try_begin(session, key, {.hash = hash, .owner = owner, .lease = while_it_is_open});
  if (begun.outcome != BeginOutcome::started) {
    transaction->commit();  // that it was seen
    // Ours, when a run before this one did not learn of its commit.
    const bool handled = begun.outcome == BeginOutcome::processed && begun.mine;
    return handled ? ProcessOutcome::handled : outcome_of(begun.outcome);
  }
  {
    Transaction lent{std::make_unique<storage::LentTransaction>(*transaction)};
    handler(lent);
  }
  // False only when the handler has marked it by itself.
  database_->inbox().mark_processed(session, key, storage::InboxFence{owner, begun.epoch});
  transaction->commit();
  return ProcessOutcome::handled;
}

ProcessOutcome Inbox::process(std::string_view source, std::string_view message_id,
                              const std::function<void(Transaction& transaction)>& handler,
                              const ProcessOptions& options) {
  const auto key = inbox::checked_key(source, message_id);
  inbox::require_hash(options.hash);
  if (!handler) throw std::invalid_argument("handler must not be empty");
  const auto max_attempts = options.max_attempts.value_or(options_.queue.max_attempts);
  if (max_attempts < 1) throw std::out_of_range("max_attempts must be at least 1");
  const auto owner = OwnerToken::generate();
  auto outcome = ProcessOutcome::in_progress;
  try {
    storage::run_with_retry(*system_clock(), log_, {}, {.repeatable = true},
                            [&] { outcome = process_once(key, owner, options.hash, handler); });
  } catch (const PermanentFailure& failure) {
    note_failed_try(key, options.hash, 1, failure.what());
    throw;
  } catch (const std::exception& failure) {
    if (!is_of_the_world(failure)) note_failed_try(key, options.hash, max_attempts, failure.what());
    throw;
  } catch (...) {
    note_failed_try(key, options.hash, max_attempts, "the handler threw something that is no std::exception");
    throw;
  }
  if (outcome == ProcessOutcome::hash_mismatch) note_mismatch(source, message_id);
  metrics_.count("inbox.processed", 1, {{"store", database_->name()}, {"outcome", to_string(outcome)}});
  log_.write(LogLevel::debug, "inbox.processed",
             {{"store", database_->name()},
              {"source", source},
              {"message_id", message_id},
              {"outcome", to_string(outcome)}});
  return outcome;
}

/// What the handler wrote is gone; that it tried is not. Whoever called it gets the handler's own error, so that of this
/// is only logged.
void Inbox::note_failed_try(const storage::InboxKey& key, ContentHash hash, int max_attempts,
                            std::string_view error) noexcept {
  try {
    const auto printable = core::printable(error);
    const auto text = inbox::checked_error("error", printable);
    const auto owner = OwnerToken::generate();
    bool noted = false;
    bool dead = false;
    database_->write({}, [&](storage::WriteSession& session) {
      auto& store = database_->inbox();
      const auto begun =
          store.try_begin(session, key, {.hash = hash, .owner = owner, .lease = std::chrono::minutes{1}});
      noted = begun.outcome == BeginOutcome::started;
      if (!noted) return;  // somebody else is at it meanwhile
      const storage::InboxFence fence{owner, begun.epoch};
      dead = begun.attempts >= max_attempts;
      if (dead) {
        store.mark_dead(session, key, fence, text);
      } else {
        store.release(session, key, fence, text);
      }
    });
    metrics_.count("inbox.failed_tries", noted ? 1 : 0,
                   {{"store", database_->name()}, {"source", key.source}});
    if (dead) note_dead(key.source, key.message_id, text);
  } catch (const std::exception& failure) {
    log_.write(LogLevel::error, "inbox.note_failed",
               {{"store", database_->name()},
                {"source", key.source},
                {"message_id", key.message_id},
                {"error", failure.what()}});
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log sink's own; whoever called gets the handler's error
  }
}

}  // namespace dovetail
