#include "join/wait_handler.hpp"

#include <algorithm>

#include "dovetail/error.hpp"
#include "join/wait_payload.hpp"
#include "storage/join_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail::join {
namespace {

using std::chrono::milliseconds;
using storage::after_commit;
using storage::session_of;

/// The pause after a failure of the database. Such a failure costs no attempt.
constexpr milliseconds retry_after{1'000};
/// A waiting message loses attempts only when its worker dies or a commit fails. Each check of a
/// pending join resets its attempts to zero.
constexpr int attempts = 1'000;

/// True if the failure path is taken: always after a missed deadline, and after failed steps if the
/// message asks for it.
bool has_failed(const Join& join, const Continuation& continuation) {
  if (join.reason) return true;
  return continuation.fail_if_any_step_failed && join.failed_steps > 0;
}

}  // namespace

HandlerOptions WaitHandler::options() const {
  return {.max_attempts = attempts,
          .backoff = [](int) { return retry_after; },
          .timeout = std::chrono::minutes{1}};
}

void WaitHandler::handle(const Message& message, HandlerContext& context) {
  try {
    look(message, context);
  } catch (const PermanentFailure&) {
    throw;
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    // A schema error: the tables of joins were removed. They may be created again.
    const bool removed = known != nullptr && known->kind() == ErrorKind::schema;
    const bool locked = known != nullptr && known->kind() == ErrorKind::lock_timeout;
    log_.write(locked ? LogLevel::debug : LogLevel::warn, "join.wait_postponed",
               {{"store", database_.name()},
                {"message_id", message.message_id.to_string()},
                {"error", error.what()}});
    context.snooze(removed ? options_.wait_poll : retry_after);
  }
}

void WaitHandler::look(const Message& message, HandlerContext& context) {
  WaitPayload payload;
  try {
    payload = parse_wait_payload(message.payload);
  } catch (const std::invalid_argument& error) {
    throw PermanentFailure(error.what());
  }
  auto& transaction = context.transaction();
  const auto awaited = database_.store<storage::JoinStore>().wait(session_of(transaction),
                                                                  payload.join, message.message_id);
  if (!awaited) throw PermanentFailure("join " + payload.join.to_string() + " does not exist");
  const auto& join = awaited->join;
  switch (join.status) {
    case JoinStatus::pending: {
      auto delay = options_.wait_poll;
      if (awaited->until_deadline) {
        const auto left = std::chrono::ceil<milliseconds>(std::clamp<std::chrono::microseconds>(
            *awaited->until_deadline, milliseconds{0}, delay));
        delay = std::min(delay, left + milliseconds{1});
      }
      note_waiting_();
      context.commit_and_snooze(delay);
      log_decision(transaction, LogLevel::debug, "join.waiting", message, join);
      return;
    }
    case JoinStatus::cancelled:
      log_decision(transaction, LogLevel::info, "join.wait_cancelled", message, join);
      return;
    case JoinStatus::completed:
    case JoinStatus::failed:
      log_decision(transaction, LogLevel::info, "join.ended", message, join);
      go_on(message, payload.continuation, join, transaction);
      return;
  }
}

void WaitHandler::go_on(const Message& message, const Continuation& continuation, const Join& join,
                        Transaction& transaction) {
  const bool failed = has_failed(join, continuation);
  const auto& topic =
      failed ? continuation.on_fail_topic.value_or("") : continuation.on_complete_topic;
  after_commit(transaction, [this, failed] {
    metrics_.count("dovetail_joins_continued_total", 1,
                   {{"store", database_.name()}, {"path", failed ? "failure" : "success"}});
  });
  if (topic.empty()) {
    log_decision(transaction, LogLevel::info, "join.no_continuation", message, join);
    return;
  }
  try {
    outbox_.enqueue(transaction, {.topic = topic,
                                  .payload = failed ? continuation.on_fail_payload.value_or("")
                                                    : continuation.on_complete_payload,
                                  .correlation_id = message.correlation_id,
                                  .message_id = Joins::continuation_of(message.message_id),
                                  .headers = message.headers,
                                  .priority = message.priority});
  } catch (
      const std::invalid_argument& error) {  // a payload written by hand, and a retry cannot help
    throw PermanentFailure(error.what());
  }
  log_decision(transaction, LogLevel::info,
               failed ? "join.failure_continued" : "join.success_continued", message, join);
}

/// Logs the decision after the commit: a failed transaction is retried and decides again.
void WaitHandler::log_decision(Transaction& transaction, LogLevel level, std::string_view event,
                               const Message& message, const Join& join) const {
  if (!log_.enabled(level)) return;
  after_commit(transaction, [this, level, event, waiting = message.message_id, id = join.id,
                             status = join.status, expected = join.expected_steps,
                             completed = join.completed_steps, failed = join.failed_steps] {
    log_.write(level, event,
               {{"store", database_.name()},
                {"join_id", id.to_string()},
                {"message_id", waiting.to_string()},
                {"status", to_string(status)},
                {"expected_steps", expected},
                {"completed_steps", completed},
                {"failed_steps", failed}});
  });
}

}  // namespace dovetail::join
