#include "runtime/invocation.hpp"

#include <algorithm>
#include <array>

#include "core/random.hpp"
#include "core/text.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/error.hpp"
#include "runtime/consumer_span.hpp"
#include "storage/lent_transaction.hpp"

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;

constexpr std::size_t max_error_bytes = 2048;
constexpr std::chrono::milliseconds longest_delay = std::chrono::hours{24 * 365};
/// The time limit for a lock if the transactions of too many handlers already wait for locks, and
/// the delay of the message after that limit.
constexpr std::chrono::milliseconds waiting_lock_patience{100};
constexpr std::chrono::milliseconds blocked_delay{1'000};

class Context final : public HandlerContext {
 public:
  Context(const QueueScope& scope, Delivery& delivery) : scope_(scope), delivery_(delivery) {}

  [[nodiscard]] std::stop_token stop_token() const override { return delivery_.stop.get_token(); }
  [[nodiscard]] const std::string& database() const override { return scope_.database.name(); }
  [[nodiscard]] std::int64_t epoch() const override { return delivery_.claimed.claim.epoch; }
  [[nodiscard]] Transaction& transaction() override {
    if (!lent_) {
      if (delivery_.await_predecessors && !delivery_.await_predecessors()) {
        throw std::runtime_error("the messages before this one in its stream are not settled");
      }
      own_ = scope_.database.begin();
      if (scope_.database.transactions_exclude_writers()) hold_lease();
      lent_.emplace(std::make_unique<storage::LentTransaction>(*own_));
    }
    return *lent_;
  }
  void snooze(std::chrono::milliseconds delay) override {
    if (delay < std::chrono::milliseconds::zero() || delay > longest_delay) {
      throw std::out_of_range("delay must be zero to a year");
    }
    snoozed_ = delay;
    keeps_writes_ = false;
  }
  void commit_and_snooze(std::chrono::milliseconds delay) override {
    snooze(delay);
    keeps_writes_ = true;
  }

  [[nodiscard]] Stages stages() const override {
    return delivery_.claimed.message.stages | stages_done_;
  }
  bool stage_done(Stages stages) override {
    const std::array claims{delivery_.claimed.claim};
    std::size_t held = 0;
    const auto add = [&](storage::WriteSession& session) {
      held = scope_.consumer.add_stages(session, scope_.owner, claims, stages);
    };
    if (own_) {
      add(own_->session());
    } else {
      scope_.database.write({.repeatable = true}, add);
    }
    if (held == 1) stages_done_ |= stages;
    return held == 1;
  }

  [[nodiscard]] storage::TransactionHandle* own_transaction() { return own_.get(); }
  [[nodiscard]] const std::optional<std::chrono::milliseconds>& snoozed() const { return snoozed_; }
  [[nodiscard]] bool keeps_writes() const { return keeps_writes_; }
  void drop_transaction() {
    lent_.reset();
    own_.reset();
  }

 private:
  /// While this transaction is open, no other transaction can renew the lease or take it. So the
  /// transaction itself renews the lease, for as long as it may last.
  void hold_lease() {
    const std::array claims{delivery_.claimed.claim};
    if (scope_.consumer.renew(own_->session(), scope_.owner, claims, std::chrono::hours{24})
            .empty()) {
      own_.reset();
      throw std::runtime_error("the lease was lost before the handler's transaction began");
    }
    delivery_.holds_lease = true;
  }

  const QueueScope& scope_;
  Delivery& delivery_;
  std::unique_ptr<storage::TransactionHandle> own_;
  std::optional<Transaction> lent_;
  std::optional<std::chrono::milliseconds> snoozed_;
  bool keeps_writes_ = false;
  Stages stages_done_;
};

/// Settles the message in the handler's transaction and commits it. Returns false if the lease was
/// lost.
bool commit_with_settlement(const QueueScope& scope, Delivery& delivery, Context& context) {
  auto& transaction = *context.own_transaction();
  auto& session = transaction.session();
  auto& consumer = scope.consumer;
  const std::array claims{delivery.claimed.claim};
  delivery.committing = true;
  const bool may_wait = !delivery.before_commit || delivery.before_commit();
  if (!may_wait) consumer.limit_lock_waits(session, waiting_lock_patience);
  const auto settled = context.snoozed()
                           ? consumer.snooze(session, scope.owner, claims, context.snoozed())
                           : consumer.ack(session, scope.owner, claims, scope.keep_done);
  const bool held = settled == 1;
  if (held) transaction.commit();
  context.drop_transaction();
  return held;
}

void log_lost_lease(const QueueScope& scope, const Message& message) {
  scope.count_metric("dovetail_lease_lost_total", 1);
  scope.log.write(LogLevel::warn, scope.event("lease_lost"),
                  {{"store", scope.database.name()},
                   {"topic", message.topic},
                   {"message_id", message.message_id.to_string()}});
}

/// Returns false if a lock of another transaction would block the settlement.
bool can_settle(const QueueScope& scope, const Claim& claim) {
  try {
    const std::array claims{claim};
    const auto transaction = scope.database.begin();
    return !scope.consumer.settleable(transaction->session(), scope.owner, claims).empty();
  } catch (const Error&) {
    return true;  // the handler's own transaction meets the failure, if it lasts
  }
}

/// The handler is not at fault. The message returns, and no attempt is charged.
storage::Settlement postponed(const QueueScope& scope, Delivery& delivery) {
  delivery.blocked = true;
  scope.count_metric("dovetail_settlement_blocked_total", 1);
  return {.kind = Kind::snooze, .claim = delivery.claimed.claim, .delay = blocked_delay};
}

std::optional<storage::Settlement> call(const QueueScope& scope, Delivery& delivery,
                                        Context& context) {
  const auto& message = delivery.claimed.message;
  const auto& claim = delivery.claimed.claim;
  if (delivery.checks_first && !can_settle(scope, claim)) return postponed(scope, delivery);
  delivery.handler->function(message, context);
  const bool commits =
      context.own_transaction() != nullptr && (!context.snoozed() || context.keeps_writes());
  if (!commits) {
    context.drop_transaction();
    if (!context.snoozed()) return storage::Settlement{.kind = Kind::ack, .claim = claim};
    return storage::Settlement{.kind = Kind::snooze, .claim = claim, .delay = *context.snoozed()};
  }
  bool held = false;
  try {
    held = commit_with_settlement(scope, delivery, context);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::lock_timeout) throw;
    context.drop_transaction();  // the work of the handler is rolled back
    return postponed(scope, delivery);
  }
  if (!held) {
    delivery.lease_lost = true;
    log_lost_lease(scope, message);
  } else if (context.snoozed()) {
    scope.count_settled(message.topic, "snoozed", 1);
    delivery.snoozed_for = context.snoozed();
  } else {
    delivery.acked = true;
    scope.count_settled(message.topic, "done", 1);
  }
  return std::nullopt;
}

}  // namespace

storage::Settlement failed_try(const RegisteredHandler& handler, const Claim& claim, int attempts,
                               std::string_view error) {
  storage::Settlement settlement{.kind = Kind::abandon,
                                 .claim = claim,
                                 .error = std::string{core::trimmed(error, max_error_bytes)},
                                 .max_attempts = handler.max_attempts,
                                 .on_stream_failure = handler.options.on_stream_failure};
  settlement.delay = ExponentialBackoff{}.delay(attempts + 1, core::random_unit());
  if (handler.options.backoff) {
    try {
      const auto delay = handler.options.backoff(attempts + 1);
      settlement.delay = std::clamp(delay, std::chrono::milliseconds::zero(), longest_delay);
    } catch (...) {  // NOLINT(bugprone-empty-catch): documented: the default is used
    }
  }
  return settlement;
}

namespace {

/// The exception of a handler, and the settlement of its message.
class Failure {
 public:
  Failure(const QueueScope& scope, const Delivery& delivery, std::string type,
          std::string_view error)
      : scope_(scope), delivery_(delivery), type_(std::move(type)), error_(core::printable(error)) {
    error_ = core::trimmed(error_, max_error_bytes);
  }

  /// A retry cannot succeed.
  [[nodiscard]] storage::Settlement permanent() const {
    log(LogLevel::error, "dead_letter");
    return {.kind = Kind::fail,
            .claim = delivery_.claimed.claim,
            .error = error_.empty() ? "permanent failure" : error_,
            .on_stream_failure = delivery_.handler->options.on_stream_failure};
  }

  [[nodiscard]] storage::Settlement tried() const {
    const auto attempts = delivery_.claimed.message.attempts;
    // A handler that stops because of a shutdown behaves as required. No attempt is charged.
    if (delivery_.shutting_down) {
      log(LogLevel::info, "released");
      return {.kind = Kind::snooze, .claim = delivery_.claimed.claim};
    }
    const bool last = attempts + 1 >= delivery_.handler->max_attempts;
    log(last ? LogLevel::error : LogLevel::warn, last ? "dead_letter" : "retry");
    return failed_try(*delivery_.handler, delivery_.claimed.claim, attempts, error_);
  }

 private:
  void log(LogLevel level, std::string_view what) const {
    const auto& message = delivery_.claimed.message;
    scope_.log.write(level, scope_.event(what),
                     {{"store", scope_.database.name()},
                      {"topic", message.topic},
                      {"message_id", message.message_id.to_string()},
                      {"attempt", message.attempts + 1},
                      {"exception", type_},
                      {"error", error_}});
  }

  const QueueScope& scope_;
  const Delivery& delivery_;
  std::string type_;
  std::string error_;
};

}  // namespace

std::optional<storage::Settlement> invoke(const QueueScope& scope, Delivery& delivery) {
  const auto& message = delivery.claimed.message;
  if (scope.log.enabled(LogLevel::info)) {
    scope.log.write(LogLevel::info, scope.event("handling"),
                    {{"store", scope.database.name()},
                     {"topic", message.topic},
                     {"message_id", message.message_id.to_string()},
                     {"attempt", message.attempts + 1}});
  }
  const auto begun = scope.database.clock().mono();
  scope.metrics.time("dovetail_wait_seconds", std::max(begun - delivery.due, MonoDuration{0}),
                     {{"store", scope.database.name()}, {"queue", scope.queue()}});
  ConsumerSpan span(scope, message);
  Context context(scope, delivery);
  std::optional<storage::Settlement> settlement;
  try {
    settlement = call(scope, delivery, context);
  } catch (const PermanentFailure& failure) {
    span.fail(failure.what());
    settlement =
        Failure(scope, delivery, core::type_name(typeid(failure)), failure.what()).permanent();
  } catch (const std::exception& failure) {
    span.fail(failure.what());
    settlement = Failure(scope, delivery, core::type_name(typeid(failure)), failure.what()).tried();
  } catch (...) {
    span.fail("unknown");
    settlement =
        Failure(scope, delivery, "unknown", "the handler threw something that is no std::exception")
            .tried();
  }
  scope.metrics.time(
      "dovetail_handler_seconds", scope.database.clock().mono() - begun,
      {{"store", scope.database.name()}, {"queue", scope.queue()}, {"topic", message.topic}});
  return settlement;  // the context rolls back an open transaction
}

}  // namespace dovetail::runtime
