// Inbox::process(): handles a message and marks it, in one transaction.
#include <algorithm>
#include <stdexcept>
#include <stop_token>
#include <thread>

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

/// Longer than a transaction can last. While the transaction is open, its lock protects the
/// message.
constexpr std::chrono::hours lease_while_open{24 * 365};
/// The lease between the transaction that notes an attempt and the transaction of the handler. If
/// the process dies in between, the message can begin again after this time.
constexpr std::chrono::milliseconds longest_process_lease{10'000};
/// A call that meets another process() between its two transactions pauses and retries. It gives up
/// `grace` after the lease of the other call must have expired.
constexpr std::chrono::milliseconds first_pause{2};
constexpr std::chrono::milliseconds longest_pause{200};
constexpr std::chrono::milliseconds grace{500};
constexpr std::chrono::milliseconds note_when_closing{2'000};

ProcessOutcome outcome_of(BeginOutcome outcome) {
  switch (outcome) {
    case BeginOutcome::started:
      return ProcessOutcome::handled;
    case BeginOutcome::in_progress:
      return ProcessOutcome::in_progress;
    case BeginOutcome::processed:
      return ProcessOutcome::processed;
    case BeginOutcome::dead_letter:
      return ProcessOutcome::dead_letter;
    case BeginOutcome::hash_mismatch:
      return ProcessOutcome::hash_mismatch;
  }
  return ProcessOutcome::in_progress;
}

/// The database caused the failure, not the handler: it costs no attempt.
bool is_environmental(const std::exception& failure) {
  const auto* error = dynamic_cast<const Error*>(&failure);
  return error != nullptr && (error->is_transient() || error->is_in_doubt());
}

/// The call was cancelled because the platform is closing: that costs no attempt either.
bool is_cancelled(const std::exception& failure) {
  const auto* error = dynamic_cast<const Error*>(&failure);
  return error != nullptr && error->kind() == ErrorKind::cancelled;
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
    case ProcessOutcome::dead_letter:
      return "dead_letter";
    case ProcessOutcome::hash_mismatch:
      return "hash_mismatch";
  }
  return "unknown";
}

/// Notes an attempt before it runs. Polls while another process() has begun the message: between
/// the two transactions of the other call there is no lock to wait for.
storage::BeginAnswer Inbox::begin_try(const storage::InboxKey& key, storage::BeginOrder order) {
  // The pauses use the clock of the system, because the other call runs in real time. The time
  // limit depends on the lease, so it uses the injected clock.
  const MonoDeadline patience(database_->clock(),
                              std::chrono::ceil<std::chrono::milliseconds>(order.lease) + grace);
  for (auto pause = first_pause;; pause = std::min(pause * 2, longest_pause)) {
    storage::BeginAnswer answer;
    database_->write(
        {.single_statement = true, .repeatable = true},
        [&](storage::WriteSession& session) { answer = store_->try_begin(session, key, order); });
    if (answer.outcome != BeginOutcome::in_progress || !answer.by_process || patience.expired())
      return answer;
    system_clock()->sleep_for(pause);
    order.counts = false;
  }
}

ProcessOutcome Inbox::process_once(const storage::InboxKey& key, const storage::InboxFence& fence,
                                   const std::function<void(Transaction& transaction)>& handler) {
  const auto transaction = database_->begin();
  auto& session = transaction->session();
  if (!store_->continue_try(session, key, fence, lease_while_open)) {
    // Either an earlier run of this call committed and its answer was lost, or another call has
    // begun the message since.
    const bool handled = store_->is_marked(session, key, InboxStatus::processed, fence);
    return handled ? ProcessOutcome::handled : ProcessOutcome::in_progress;
  }
  {
    Transaction lent{std::make_unique<storage::LentTransaction>(*transaction)};
    handler(lent);
  }
  // Returns false only if the handler has marked the message itself.
  store_->mark_processed(session, key, fence);
  transaction->commit();
  return ProcessOutcome::handled;
}

ProcessOutcome Inbox::run_try(const storage::InboxKey& key, const storage::InboxFence& fence,
                              bool is_last,
                              const std::function<void(Transaction& transaction)>& handler) {
  const auto failed = is_last ? TryEnd::dead_letter : TryEnd::failed;
  auto outcome = ProcessOutcome::in_progress;
  try {
    storage::run_with_retry(
        database_->clock(), log_, {.store = database_->name()}, {.repeatable = true},
        [&](const storage::Attempt&) { outcome = process_once(key, fence, handler); });
  } catch (const PermanentFailure& failure) {
    end_try(key, fence, TryEnd::dead_letter, failure.what());
    throw;
  } catch (const std::exception& failure) {
    const auto end = is_cancelled(failure)       ? TryEnd::cancelled
                     : is_environmental(failure) ? TryEnd::not_counted
                                                 : failed;
    end_try(key, fence, end, failure.what());
    throw;
  } catch (...) {
    end_try(key, fence, failed, "the handler threw something that is no std::exception");
    throw;
  }
  return outcome;
}

ProcessOutcome Inbox::process(std::string_view source, std::string_view message_id,
                              const std::function<void(Transaction& transaction)>& handler,
                              const ProcessOptions& options) {
  const auto key = inbox::checked_key(source, message_id);
  inbox::require_hash(options.hash);
  if (!handler) throw std::invalid_argument("handler must not be empty");
  const auto max_attempts = options.max_attempts.value_or(options_.queue.max_attempts);
  inbox::require_max_attempts(max_attempts);
  const auto owner = OwnerToken::generate();
  const auto begun = begin_try(
      key, {.hash = options.hash,
            .owner = owner,
            .lease = std::min<std::chrono::milliseconds>(options_.lease, longest_process_lease),
            .max_attempts = max_attempts,
            .by_process = true});
  const storage::InboxFence fence{owner, begun.epoch};
  const auto outcome = begun.outcome == BeginOutcome::started
                           ? run_try(key, fence, begun.attempts >= max_attempts, handler)
                           : outcome_of(begun.outcome);
  if (outcome == ProcessOutcome::hash_mismatch) note_mismatch(source, message_id);
  if (begun.gave_up) note_given_up(source, message_id, inbox::lost_last_attempt);
  metrics_.count("dovetail_inbox_processed_total", 1,
                 {{"store", database_->name()}, {"outcome", to_string(outcome)}});
  log_.write(LogLevel::debug, "inbox.processed",
             {{"store", database_->name()},
              {"source", source},
              {"message_id", message_id},
              {"outcome", to_string(outcome)}});
  return outcome;
}

/// Stores the end of an attempt. Returns false if another call has begun the message since.
bool Inbox::store_end(const storage::InboxKey& key, const storage::InboxFence& fence, TryEnd end,
                      std::string_view error) {
  bool noted = false;
  // While the platform closes, calls without their own stop token are cancelled. The time limit of
  // this call is a limit of I/O, so it uses the clock of the system.
  std::stop_source limit;
  std::jthread timer;
  if (end == TryEnd::cancelled) {
    timer = std::jthread([&](const std::stop_token& done) {
      if (system_clock()->sleep_for(note_when_closing, done)) limit.request_stop();
    });
  }
  const auto stop = end == TryEnd::cancelled ? limit.get_token() : std::stop_token{};
  database_->write({.stop = stop}, [&](storage::WriteSession& session) {
    auto& store = *store_;
    noted = store.continue_try(session, key, fence, std::chrono::minutes{1});
    if (!noted) return;
    if (end == TryEnd::dead_letter) {
      store.mark_dead(session, key, fence, error);
    } else {
      store.release(session, key, fence, error, end == TryEnd::failed ? 1 : 0);
    }
  });
  return noted;
}

/// Stores a failed attempt, whose writes are rolled back. The caller gets the error of the handler,
/// so an error of this function is only logged.
void Inbox::end_try(const storage::InboxKey& key, const storage::InboxFence& fence, TryEnd end,
                    std::string_view error) noexcept {
  try {
    const auto printable = core::printable(error);
    const auto text = inbox::checked_error("error", printable);
    const bool noted = store_end(key, fence, end, text);
    const bool counts = noted && end != TryEnd::not_counted && end != TryEnd::cancelled;
    metrics_.count("dovetail_inbox_failed_tries_total", counts ? 1 : 0,
                   {{"store", database_->name()}, {"source", key.source}});
    if (noted && end == TryEnd::dead_letter) note_given_up(key.source, key.message_id, text);
  } catch (const std::exception& failure) {
    log_.write(LogLevel::error, "inbox.note_failed",
               {{"store", database_->name()},
                {"source", key.source},
                {"message_id", key.message_id},
                {"error", failure.what()}});
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): a log sink threw; the caller gets the handler's error
  }
}

}  // namespace dovetail
