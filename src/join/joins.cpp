#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/derived_id.hpp"
#include "core/require.hpp"
#include "dovetail/error.hpp"
#include "dovetail/join.hpp"
#include "join/wait_payload.hpp"
#include "outbox/store_messages.hpp"
#include "queue/new_messages.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/join_store.hpp"
#include "storage/portions.hpp"

namespace dovetail {
namespace {

constexpr std::size_t max_grouping_key_characters = 255;
constexpr std::size_t max_metadata_bytes = std::size_t{1} << 20;

void require_id(const char* what, const Uuid& id) {
  if (id.is_nil()) throw std::invalid_argument(std::string{what} + " must not be the nil UUID");
}

[[noreturn]] void no_such_join(JoinId join) {
  throw InvalidOperation("join " + join.to_string() + " does not exist");
}

void require_request(const JoinRequest& request) {
  if (request.grouping_key) {
    core::require_length("grouping_key", *request.grouping_key, max_grouping_key_characters);
  }
  if (request.metadata) {
    core::require_text("metadata", *request.metadata);
    if (request.metadata->size() > max_metadata_bytes) {
      throw std::invalid_argument("metadata must not exceed " + std::to_string(max_metadata_bytes) +
                                  " bytes, got " + std::to_string(request.metadata->size()));
    }
  }
  if (request.deadline) core::require_time("deadline", *request.deadline);
  if (request.join_id) require_id("join_id", request.join_id->uuid());
}

void require_expected_steps(int steps) {
  if (steps < 1)
    throw std::out_of_range("expected_steps must be at least 1, got " + std::to_string(steps));
}

storage::NewJoin new_join(const JoinRequest& request, JoinId id, int expected_steps) {
  storage::NewJoin join{.id = id,
                        .grouping_key = std::nullopt,
                        .expected_steps = expected_steps,
                        .metadata = std::nullopt,
                        .deadline = request.deadline};
  if (request.grouping_key && !request.grouping_key->empty())
    join.grouping_key = *request.grouping_key;
  if (request.metadata) join.metadata = *request.metadata;
  return join;
}

JoinId id_for(const std::optional<JoinId>& given) {
  return given ? *given : JoinId::generate();
}

/// A fan-out whose parts are checked and have their ids, so that writing it a second time changes
/// nothing.
struct Plan {
  Plan(const FanOut& fan, const QueueOptions& options, const std::string& wait_topic)
      : request(fan),
        join_request{.grouping_key = fan.grouping_key,
                     .expected_steps = fan.expected_steps,
                     .metadata = fan.metadata,
                     .deadline = fan.deadline,
                     .join_id = fan.join_id},
        join(id_for(fan.join_id)),
        steps(queue::checked(fan.steps, options)) {
    require_request(join_request);
    const auto given = static_cast<std::size_t>(std::max(0, fan.expected_steps));
    if (fan.expected_steps < 0) require_expected_steps(fan.expected_steps);
    if (given == 0 && steps.empty())
      throw std::invalid_argument("a fan-out needs a step, or expected_steps");
    if (given > 0 && given < steps.size()) {
      throw std::invalid_argument("expected_steps is " + std::to_string(given) +
                                  ", but there are " + std::to_string(steps.size()) + " steps");
    }
    for (std::size_t i = 0; fan.join_id && i < steps.size(); ++i) {
      if (!steps[i].fresh) continue;  // a repeated fan-out must find the steps of the first
      steps[i].id = MessageId{core::derived_id(join.uuid(), core::Derived::step_of_join, i)};
      steps[i].fresh = false;
    }
    if (!fan.wait) return;
    wait_request = EnqueueRequest{
        .topic = wait_topic,
        .payload = to_payload(join, *fan.wait),
        .message_id = MessageId{core::derived_id(join.uuid(), core::Derived::wait_of_join)}};
    wait = queue::checked(*wait_request, options);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const FanOut& request;
  JoinRequest join_request;
  JoinId join;
  std::vector<storage::NewMessage> steps;
  std::optional<EnqueueRequest> wait_request;
  std::optional<storage::NewMessage> wait;
};

/// Steps whose unique key is taken are those that are there: the join waits for as many as there
/// are messages.
int expected_steps(const Plan& plan, std::span<const Enqueued> steps) {
  if (plan.request.expected_steps > 0) return plan.request.expected_steps;
  return static_cast<int>(std::set<MessageId>(steps.begin(), steps.end()).size());
}

/// The answer of a fan-out whose join exists already: nothing was stored.
FannedOut known_fan_out(const Plan& plan) {
  FannedOut answer{.join = plan.join, .steps = {}, .wait = std::nullopt};
  for (const auto& step : plan.steps) answer.steps.push_back({step.id, false});
  if (plan.wait) answer.wait = plan.wait->id;
  return answer;
}

/// The join comes first: when it exists already, its steps may have ended and their messages may be
/// purged, so nothing is enqueued, and the answer is nothing.
std::optional<FannedOut> write_plan(storage::Database& database, storage::WriteSession& session,
                                    const Plan& plan, bool repeated,
                                    storage::Announcement announcement) {
  const auto most_steps =
      std::max(plan.request.expected_steps, static_cast<int>(plan.steps.size()));
  if (!database.store<storage::JoinStore>().start(
          session, new_join(plan.join_request, plan.join, most_steps))) {
    return std::nullopt;
  }
  FannedOut answer{.join = plan.join, .steps = {}, .wait = std::nullopt};
  if (!plan.steps.empty()) {
    answer.steps =
        outbox::store(database, session, plan.request.steps, plan.steps, repeated, announcement);
  }
  const auto steps = expected_steps(plan, answer.steps);
  if (steps != most_steps) database.store<storage::JoinStore>().expect(session, plan.join, steps);
  std::vector<storage::Membership> members;
  members.reserve(answer.steps.size());
  for (const auto& step : answer.steps) members.push_back({plan.join, step});
  if (!members.empty()) outbox::attach(database, session, members);
  if (plan.wait) {
    answer.wait =
        database.queue(storage::queues::outbox).producer.enqueue(session, *plan.wait, announcement);
    database.store<storage::JoinStore>().await(session, plan.join, *answer.wait);
  }
  return answer;
}

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
  if (created) note_started(id, request, request.expected_steps);
  return id;
}

JoinId Joins::start(Transaction& transaction, const JoinRequest& request) {
  require_request(request);
  require_expected_steps(request.expected_steps);
  const auto id = id_for(request.join_id);
  const auto join = new_join(request, id, request.expected_steps);
  if (store_->start(transaction.session(), join)) {
    transaction.after_commit([this, id, noted = JoinRequest{.grouping_key = request.grouping_key},
                              steps = request.expected_steps] { note_started(id, noted, steps); });
  }
  return id;
}

void Joins::note_started(JoinId join, const JoinRequest& request, int expected_steps) const {
  metrics_.count("join.started", 1, {{"store", database_->name()}});
  if (!log_.enabled(LogLevel::info)) return;
  log_.write(LogLevel::info, "join.started",
             {{"store", database_->name()},
              {"join_id", join.to_string()},
              {"grouping_key", request.grouping_key.value_or("")},
              {"expected_steps", expected_steps}});
}

void Joins::note_fanned_out(const JoinRequest& join, const FanOut& request, const FannedOut& answer,
                            int expected_steps) const {
  note_started(answer.join, join, expected_steps);
  outbox_->note_enqueued_many(request.steps, answer.steps);
  for (std::size_t i = 0; log_.enabled(LogLevel::debug) && i < answer.steps.size(); ++i) {
    log_.write(LogLevel::debug, "join.attached",
               {{"store", database_->name()},
                {"join_id", answer.join.to_string()},
                {"message_id", answer.steps[i].to_string()}});
  }
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
  // The message may come later. If it was purged instead, the step never ends.
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
  note_attached(join, message, attach_in(transaction.session(), join, message));
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
  return storage::confirmed_write(*database_, {}, [&](storage::WriteSession& session) {
    return report_in(session, join, message, status);
  });
}

bool Joins::report_step_completed(JoinId join, MessageId message) {
  return report(join, message, StepStatus::completed);
}

bool Joins::report_step_completed(Transaction& transaction, JoinId join, MessageId message) {
  require_id("join", join.uuid());
  require_id("message", message.uuid());
  return report_in(transaction.session(), join, message, StepStatus::completed);
}

bool Joins::report_step_failed(JoinId join, MessageId message) {
  return report(join, message, StepStatus::failed);
}

bool Joins::report_step_failed(Transaction& transaction, JoinId join, MessageId message) {
  require_id("join", join.uuid());
  require_id("message", message.uuid());
  return report_in(transaction.session(), join, message, StepStatus::failed);
}

// --- waiting, and whole fan-outs

MessageId Joins::enqueue_wait(JoinId join, const Continuation& continuation) {
  const EnqueueRequest request{.topic = options_.wait_topic,
                               .payload = to_payload(join, continuation)};
  const auto message = queue::checked(request, outbox_->options());
  bool again = false;
  database_->write({.repeatable = true}, [&](storage::WriteSession& session) {
    outbox::require_joins(*database_, session, std::span{&join, 1});
    database_->queue(storage::queues::outbox)
        .producer.enqueue_many(session, std::span{&message, 1}, std::exchange(again, true),
                               storage::Announcement::later);
    store_->await(session, join, message.id);
  });
  outbox_->note_enqueued(message, true);
  database_->announce();
  return message.id;
}

MessageId Joins::enqueue_wait(Transaction& transaction, JoinId join,
                              const Continuation& continuation) {
  const EnqueueRequest request{.topic = options_.wait_topic,
                               .payload = to_payload(join, continuation)};
  outbox::require_joins(*database_, transaction.session(), std::span{&join, 1});
  const auto message = outbox_->enqueue(transaction, request);
  store_->await(transaction.session(), join, message);
  return message;
}

FannedOut Joins::fan_out(const FanOut& request) {
  const Plan plan(request, outbox_->options(), options_.wait_topic);
  std::optional<FannedOut> written;
  bool again = false;
  const bool created =
      storage::confirmed_write(*database_, {}, [&](storage::WriteSession& session) {
        const bool repeated = std::exchange(again, true);
        auto now = write_plan(*database_, session, plan, repeated, storage::Announcement::later);
        if (!now)
          return false;  // perhaps the run before wrote it: then its answer is the right one
        written = std::move(now);
        return true;
      });
  if (!created || !written) return known_fan_out(plan);
  note_fanned_out(plan.join_request, request, *written, expected_steps(plan, written->steps));
  database_->announce();
  return *std::move(written);
}

FannedOut Joins::fan_out(Transaction& transaction, const FanOut& request) {
  const Plan plan(request, outbox_->options(), options_.wait_topic);
  auto written = write_plan(*database_, transaction.session(), plan, false,
                            queue::announcement_in(transaction));
  if (!written) return known_fan_out(plan);
  note_fanned_out(plan.join_request, request, *written, expected_steps(plan, written->steps));
  transaction.announce_at_commit();
  return *std::move(written);
}

// --- operating

bool Joins::cancel_in(storage::WriteSession& session, JoinId join) const {
  const auto cancelled = store_->cancel(session, join);
  if (!cancelled) no_such_join(join);
  return *cancelled;
}

void Joins::note_cancelled(JoinId join) const {
  metrics_.count("join.cancelled", 1, {{"store", database_->name()}});
  log_.write(LogLevel::info, "join.cancelled",
             {{"store", database_->name()}, {"join_id", join.to_string()}});
}

bool Joins::cancel(JoinId join) {
  require_id("join", join.uuid());
  const bool cancelled = storage::confirmed_write(
      *database_, {}, [&](storage::WriteSession& session) { return cancel_in(session, join); });
  if (cancelled) note_cancelled(join);
  return cancelled;
}

bool Joins::cancel(Transaction& transaction, JoinId join) {
  require_id("join", join.uuid());
  const bool cancelled = cancel_in(transaction.session(), join);
  if (cancelled) transaction.after_commit([this, join] { note_cancelled(join); });
  return cancelled;
}

std::optional<Join> Joins::get(JoinId join) {
  std::optional<Join> found;
  database_->read([&](storage::ReadSession& session) { found = store_->get(session, join); });
  return found;
}

std::vector<Join> Joins::list(const JoinFilter& filter, const JoinPage& page) {
  if (filter.grouping_key) {
    core::require_length("grouping_key", *filter.grouping_key, max_grouping_key_characters);
  }
  if (filter.created_after) core::require_time("created_after", *filter.created_after);
  if (filter.created_before) core::require_time("created_before", *filter.created_before);
  core::require_batch_size("size", page.size);
  std::vector<Join> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->list(session, filter, page); });
  return found;
}

std::vector<JoinMember> Joins::members(JoinId join, const MemberPage& page) {
  core::require_batch_size("size", page.size);
  std::vector<JoinMember> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->members(session, join, page); });
  return found;
}

std::size_t Joins::fail_overdue(const std::stop_token& stop) {
  const auto count = storage::in_portions(
      *database_,
      [&](storage::WriteSession& session, int most) { return store_->fail_overdue(session, most); },
      stop);
  if (count > 0) {
    metrics_.count("join.overdue", count, {{"store", database_->name()}});
    log_.write(LogLevel::info, "join.overdue", {{"store", database_->name()}, {"count", count}});
  }
  return count;
}

std::size_t Joins::purge(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("age must be zero to ten years");
  }
  std::size_t count = 0;
  while (!stop.stop_requested()) {
    // Each transaction deletes as many joins as have a certain number of steps together.
    std::size_t some = 0;
    const auto begun = std::chrono::steady_clock::now();
    database_->write({.single_statement = true, .service = true, .stop = stop},
                     [&](storage::WriteSession& session) {
                       some = store_->purge(session, age, storage::portion);
                     });
    count += some;
    if (some == 0) break;
    const auto took = std::chrono::steady_clock::now() - begun;
    if (database_->transactions_exclude_writers() && !storage::pause_between_portions(took, stop))
      break;
  }
  if (count > 0)
    log_.write(LogLevel::info, "join.purged", {{"store", database_->name()}, {"count", count}});
  return count;
}

}  // namespace dovetail
