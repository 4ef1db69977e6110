#include "runtime/intake.hpp"

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;

/// The longest wait: as good as forever, without an overflow of the clock.
constexpr std::chrono::milliseconds longest_wait = std::chrono::hours{24 * 365};

}  // namespace

Arrivals Intake::take(Subscription& subscription, std::vector<storage::ClaimedEntry> entries,
                      MonoTime sent_at) const {
  Arrivals arrivals;
  arrivals.deliveries.reserve(entries.size());
  std::string halted;  // a stream whose last message was refused: its successors are given back
  for (auto& entry : entries) {
    const auto* handler = handlers_.find(entry.claimed.message.topic);
    const auto stream = entry.claimed.message.stream.value_or("");
    auto settlement = !stream.empty() && stream == halted
                          ? storage::Settlement{.kind = Kind::snooze, .claim = entry.claimed.claim}
                          : refusal(entry, handler);
    if (settlement) {
      halted = stream;
      const auto outcome = outcome_of(*settlement, entry.claimed.message);
      arrivals.refused.push_back({.settlement = std::move(*settlement),
                                  .subscription = &subscription,
                                  .priority = entry.claimed.message.priority,
                                  .lease_end = sent_at + lease_,
                                  .stream = stream,
                                  .topic = entry.claimed.message.topic,
                                  .outcome = outcome});
      continue;
    }
    auto delivery = delivery_of(std::move(entry), sent_at);
    delivery->handler = handler;
    delivery->subscription = &subscription;
    arrivals.deliveries.push_back(std::move(delivery));
  }
  return arrivals;
}

std::optional<storage::Settlement> Intake::refusal(const storage::ClaimedEntry& entry,
                                                   const RegisteredHandler* handler) const {
  const auto& message = entry.claimed.message;
  const auto& claim = entry.claimed.claim;
  if (handler == nullptr) {
    report_unknown_topic(message);
    const RegisteredHandler nobody{{}, {}, handlers_.default_attempts()};
    return failed_try(nobody, claim, message.attempts, "no handler for this topic");
  }
  if (entry.lost_leases > 0 && message.attempts >= handler->max_attempts) {
    return storage::Settlement{.kind = Kind::fail,
                               .claim = claim,
                               .error = "the lease expired on the last attempt",
                               .charge = 0,
                               .on_stream_failure = handler->options.on_stream_failure};
  }
  return std::nullopt;
}

void Intake::report_unknown_topic(const Message& message) const {
  scope_.log.write(LogLevel::warn, scope_.event("unknown_topic"),
                   {{"store", scope_.database.name()},
                    {"topic", message.topic},
                    {"message_id", message.id.to_string()}});
  scope_.count_metric("dovetail_unknown_topic_total", 1);
}

DeliveryPtr Intake::delivery_of(storage::ClaimedEntry&& entry, MonoTime sent_at) const {
  auto delivery = std::make_shared<Delivery>();
  delivery->place = {.ready_at = entry.ready_at, .id = entry.claimed.claim.id.uuid(), .row = 0};
  delivery->lost_leases = entry.lost_leases;
  delivery->lease_end = sent_at + lease_;
  const auto database_now = entry.claimed.lease_until - lease_;
  delivery->due = sent_at - (database_now - entry.ready_at);
  if (const auto expires_at = entry.claimed.message.expires_at) {
    const auto left = *expires_at - database_now;  // limited first: it may be centuries
    delivery->expires =
        scope_.database.clock().mono() + std::min<std::chrono::microseconds>(left, longest_wait);
  }
  delivery->claimed = std::move(entry.claimed);
  return delivery;
}

}  // namespace dovetail::runtime
