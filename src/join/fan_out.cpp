// Stores a join, its steps and the message that waits for it in one transaction.
#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/derived_id.hpp"
#include "dovetail/join.hpp"
#include "join/rules.hpp"
#include "join/wait_payload.hpp"
#include "outbox/enqueued_batch.hpp"
#include "outbox/store_messages.hpp"
#include "queue/new_messages.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/join_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

using join::id_for;
using join::new_join;
using join::require_expected_steps;
using join::require_request;
using storage::after_commit;
using storage::session_of;

/// A checked fan-out. All ids are set, so a second write of the same plan changes nothing.
struct FanOutPlan {
  FanOutPlan(const FanOut& fan, const QueueOptions& options, const std::string& wait_topic)
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
  FanOutPlan(const FanOutPlan&) = delete;
  FanOutPlan& operator=(const FanOutPlan&) = delete;

  const FanOut& request;
  JoinRequest join_request;
  JoinId join;
  std::vector<storage::NewMessage> steps;
  std::optional<EnqueueRequest> wait_request;
  std::optional<storage::NewMessage> wait;
};

/// If a message with the unique key of a step exists, that message is the step. So the number of
/// steps is the number of different messages.
int expected_steps(const FanOutPlan& plan, std::span<const Enqueued> steps) {
  if (plan.request.expected_steps > 0) return plan.request.expected_steps;
  return static_cast<int>(std::set<MessageId>(steps.begin(), steps.end()).size());
}

/// The answer of a fan-out whose join exists already: nothing was stored.
FannedOut known_fan_out(const FanOutPlan& plan) {
  FannedOut answer{.join = plan.join, .steps = {}, .wait = std::nullopt};
  for (const auto& step : plan.steps) answer.steps.push_back({step.id, false});
  if (plan.wait) answer.wait = plan.wait->id;
  return answer;
}

/// Writes the join first. If the join exists already, its steps may have ended and their messages
/// may be purged. Then it enqueues nothing and returns nullopt.
std::optional<FannedOut> write_plan(storage::Database& database, storage::WriteSession& session,
                                    const FanOutPlan& plan, bool repeated) {
  const auto most_steps =
      std::max(plan.request.expected_steps, static_cast<int>(plan.steps.size()));
  if (!database.store<storage::JoinStore>().start(
          session, new_join(plan.join_request, plan.join, most_steps))) {
    return std::nullopt;
  }
  FannedOut answer{.join = plan.join, .steps = {}, .wait = std::nullopt};
  if (!plan.steps.empty()) {
    answer.steps = outbox::store(database, session, plan.request.steps, plan.steps, repeated);
  }
  const auto steps = expected_steps(plan, answer.steps);
  if (steps != most_steps) database.store<storage::JoinStore>().expect(session, plan.join, steps);
  std::vector<storage::Membership> members;
  members.reserve(answer.steps.size());
  for (const auto& step : answer.steps) members.push_back({plan.join, step});
  if (!members.empty()) outbox::attach(database, session, members);
  if (plan.wait) {
    answer.wait =
        database.queue(storage::queue_names::outbox).producer.enqueue(session, *plan.wait);
    database.store<storage::JoinStore>().await(session, plan.join, *answer.wait);
  }
  return answer;
}

}  // namespace

void Joins::note_steps(JoinId join, std::span<const Enqueued> steps) const {
  for (std::size_t i = 0; log_.enabled(LogLevel::debug) && i < steps.size(); ++i) {
    log_.write(LogLevel::debug, "join.attached",
               {{"store", database_->name()},
                {"join_id", join.to_string()},
                {"message_id", steps[i].to_string()}});
  }
}

/// With a transaction, notes the fan-out after its commit.
void Joins::note_fanned_out(const FanOut& request, const FannedOut& answer, int expected_steps,
                            Transaction* transaction) const {
  const std::string_view key = request.grouping_key ? *request.grouping_key : std::string_view{};
  auto batch = outbox_->batch_of(request.steps, answer.steps);
  if (answer.wait) batch.count.add(options_.wait_topic, true);
  if (transaction == nullptr) {
    note_started(answer.join, key, expected_steps);
    outbox_->note_enqueued_many(batch);
    note_steps(answer.join, answer.steps);
    return;
  }
  auto steps = log_.enabled(LogLevel::debug) ? answer.steps : std::vector<Enqueued>{};
  after_commit(*transaction, [this, join = answer.join, key = std::string{key}, expected_steps,
                              batch = std::move(batch), steps = std::move(steps)] {
    note_started(join, key, expected_steps);
    outbox_->note_enqueued_many(batch);
    note_steps(join, steps);
  });
}

MessageId Joins::enqueue_wait(JoinId join, const Continuation& continuation) {
  const EnqueueRequest request{.topic = options_.wait_topic,
                               .payload = to_payload(join, continuation)};
  const auto message = queue::checked(request, outbox_->options());
  database_->write(
      {.repeatable = true}, [&](storage::WriteSession& session, const storage::Attempt& attempt) {
        outbox::require_joins(*database_, session, std::span{&join, 1});
        database_->queue(storage::queue_names::outbox)
            .producer.enqueue_many(session, std::span{&message, 1}, attempt.after_doubt);
        store_->await(session, join, message.id);
      });
  outbox_->note_enqueued(message.topic, message.id, {}, true);
  return message.id;
}

MessageId Joins::enqueue_wait(Transaction& transaction, JoinId join,
                              const Continuation& continuation) {
  const EnqueueRequest request{.topic = options_.wait_topic,
                               .payload = to_payload(join, continuation)};
  outbox::require_joins(*database_, session_of(transaction), std::span{&join, 1});
  const auto message = outbox_->enqueue(transaction, request);
  store_->await(session_of(transaction), join, message);
  return message;
}

FannedOut Joins::fan_out(const FanOut& request) {
  const FanOutPlan plan(request, outbox_->options(), options_.wait_topic);
  auto written = storage::confirmed_answer<FannedOut>(
      *database_, {}, [&](storage::WriteSession& session, const storage::Attempt& attempt) {
        return write_plan(*database_, session, plan, attempt.after_doubt);
      });
  if (!written) return known_fan_out(plan);
  note_fanned_out(request, *written, expected_steps(plan, written->steps), nullptr);
  return *std::move(written);
}

FannedOut Joins::fan_out(Transaction& transaction, const FanOut& request) {
  const FanOutPlan plan(request, outbox_->options(), options_.wait_topic);
  auto written = write_plan(*database_, session_of(transaction), plan, false);
  if (!written) return known_fan_out(plan);
  note_fanned_out(request, *written, expected_steps(plan, written->steps), &transaction);
  return *std::move(written);
}

}  // namespace dovetail
