// Joins and their steps; see also fan_out.cpp and operations.cpp.
#include <stdexcept>

#include "core/require.hpp"
#include "dovetail/error.hpp"
#include "dovetail/join.hpp"
#include "join/rules.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/join_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

using join::id_for;
using join::new_join;
using join::no_such_join;
using join::require_expected_steps;
using join::require_id;
using join::require_request;
using storage::after_commit;
using storage::session_of;

}  // namespace

std::string_view to_string(JoinStatus status) {
  switch (status) {
    case JoinStatus::pending:
      return "pending";
    case JoinStatus::completed:
      return "completed";
    case JoinStatus::failed:
      return "failed";
    case JoinStatus::cancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string_view to_string(StepStatus status) {
  switch (status) {
    case StepStatus::pending:
      return "pending";
    case StepStatus::completed:
      return "completed";
    case StepStatus::failed:
      return "failed";
  }
  return "unknown";
}

Joins::Joins(storage::Database& database, Outbox& outbox, JoinOptions options, Logger log,
             Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::JoinStore>()),
      outbox_(&outbox),
      options_(std::move(options)),
      log_(std::move(log)),
      metrics_(std::move(metrics)) {
  if (options_.wait_topic.empty()) throw std::invalid_argument("wait_topic must not be empty");
  core::require_length("wait_topic", options_.wait_topic, 255);
  if (options_.wait_poll < std::chrono::milliseconds{100} ||
      options_.wait_poll > std::chrono::hours{1}) {
    throw std::out_of_range("wait_poll must be 100 ms to 1 h");
  }
  if (options_.retain_finished < std::chrono::seconds::zero() ||
      options_.retain_finished > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("retain_finished must be zero to ten years");
  }
}

// --- start

JoinId Joins::start(const JoinRequest& request) {
  require_request(request);
  require_expected_steps(request.expected_steps);
  const auto id = id_for(request.join_id);
  const auto join = new_join(request, id, request.expected_steps);
  const bool created = storage::confirmed_write(
      *database_, {.single_statement = true},
      [&](storage::WriteSession& session) { return store_->start(session, join); });
  if (created) note_started(id, request.grouping_key.value_or(""), request.expected_steps);
  return id;
}

JoinId Joins::start(Transaction& transaction, const JoinRequest& request) {
  require_request(request);
  require_expected_steps(request.expected_steps);
  const auto id = id_for(request.join_id);
  const auto join = new_join(request, id, request.expected_steps);
  if (store_->start(session_of(transaction), join)) {
    after_commit(transaction, [this, id, key = request.grouping_key.value_or(""),
                               steps = request.expected_steps] { note_started(id, key, steps); });
  }
  return id;
}

void Joins::note_started(JoinId join, std::string_view grouping_key, int expected_steps) const {
  metrics_.count("dovetail_joins_started_total", 1, {{"store", database_->name()}});
  if (!log_.enabled(LogLevel::info)) return;
  log_.write(LogLevel::info, "join.started",
             {{"store", database_->name()},
              {"join_id", join.to_string()},
              {"grouping_key", grouping_key},
              {"expected_steps", expected_steps}});
}

// --- steps

bool Joins::attach_in(storage::WriteSession& session, JoinId join, MessageId message) const {
  const storage::Membership member{join, message};
  const bool known_only = outbox_->options().retain_done.count() == 0;
  const auto answer = store_->attach(session, std::span{&member, 1}, known_only);
  if (answer.missing) no_such_join(join);
  if (answer.unknown && known_only) {
    throw InvalidOperation(
        "message " + message.to_string() +
        " is not stored, and done messages are not kept (retain_done is zero): nobody can say "
        "whether it is done. Attach it with its enqueue, or keep done messages");
  }
  return !answer.unknown;
}

void Joins::note_attached(JoinId join, MessageId message, bool is_stored) const {
  // The message may be enqueued later. If it was purged, the step never ends.
  const auto level = is_stored ? LogLevel::debug : LogLevel::warn;
  if (!log_.enabled(level)) return;
  log_.write(level, is_stored ? "join.attached" : "join.attached_unknown",
             {{"store", database_->name()},
              {"join_id", join.to_string()},
              {"message_id", message.to_string()}});
}

void Joins::attach(JoinId join, MessageId message) {
  require_id("join", join.uuid());
  require_id("message", message.uuid());
  bool is_stored = true;
  database_->write({.repeatable = true}, [&](storage::WriteSession& session) {
    is_stored = attach_in(session, join, message);
  });
  note_attached(join, message, is_stored);
}

void Joins::attach(Transaction& transaction, JoinId join, MessageId message) {
  require_id("join", join.uuid());
  require_id("message", message.uuid());
  const bool is_stored = attach_in(session_of(transaction), join, message);
  after_commit(transaction,
               [this, join, message, is_stored] { note_attached(join, message, is_stored); });
}

bool Joins::report_in(storage::WriteSession& session, JoinId join, MessageId message,
                      StepStatus status) const {
  const auto counted = store_->report(session, join, message, status);
  if (counted) return *counted;
  if (store_->missing(session, std::span{&join, 1})) no_such_join(join);
  throw InvalidOperation("message " + message.to_string() + " is no step of join " +
                         join.to_string());
}

bool Joins::report(JoinId join, MessageId message, StepStatus status) {
  require_id("join", join.uuid());
  require_id("message", message.uuid());
  return storage::confirmed_write(
      *database_, {},
      [&](storage::WriteSession& session) { return report_in(session, join, message, status); },
      [&](storage::WriteSession& session) {
        return store_->is_reported(session, join, message, status);
      });
}

bool Joins::report_step_completed(JoinId join, MessageId message) {
  return report(join, message, StepStatus::completed);
}

bool Joins::report_step_completed(Transaction& transaction, JoinId join, MessageId message) {
  require_id("join", join.uuid());
  require_id("message", message.uuid());
  return report_in(session_of(transaction), join, message, StepStatus::completed);
}

bool Joins::report_step_failed(JoinId join, MessageId message) {
  return report(join, message, StepStatus::failed);
}

bool Joins::report_step_failed(Transaction& transaction, JoinId join, MessageId message) {
  require_id("join", join.uuid());
  require_id("message", message.uuid());
  return report_in(session_of(transaction), join, message, StepStatus::failed);
}

}  // namespace dovetail
