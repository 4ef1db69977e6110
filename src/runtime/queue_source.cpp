#include "runtime/queue_source.hpp"

#include <algorithm>
#include <deque>

#include "dovetail/error.hpp"
#include "storage/row_hint.hpp"

namespace dovetail::runtime {
namespace {

/// The longest wait of a settlement for a lock that another transaction holds.
constexpr std::chrono::milliseconds lock_patience{100};

std::vector<Claim> claims_of(std::span<const storage::Settlement> settlements) {
  std::vector<Claim> claims;
  claims.reserve(settlements.size());
  for (const auto& each : settlements) claims.push_back(each.claim);
  return claims;
}

}  // namespace

/// Claims that scan the queue. Where a claim blocks other writers, most of the scan happens before
/// the transaction begins.
class QueueSource::Scans {
 public:
  Scans(const QueueScope& scope, const WorkRequest& request) {
    const bool looks = scope.database.transactions_exclude_writers();
    for (const auto& order : request.claims) {
      places_.emplace_back();
      if (looks && order.scans && order.topics != nullptr) {
        scope.database.read(
            [&](storage::ReadSession& session) {
              places_.back() = scope.consumer.look_ahead(session, order);
            },
            {.service = true, .stop = request.stop});
      }
      if (goes_on(places_.size() - 1)) continue;
      orders_.push_back(order);
      if (places_.back()) orders_.back().after = &places_.back()->passed;
    }
  }

  /// The remaining claims.
  [[nodiscard]] std::span<const storage::ClaimOrder> orders() const { return orders_; }

  /// Returns the results of all claims of the request.
  [[nodiscard]] std::vector<storage::Claimed> answers(std::vector<storage::Claimed> claimed) const {
    std::vector<storage::Claimed> all;
    auto next = claimed.begin();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!goes_on(i)) {
        all.push_back(std::move(*next++));
        continue;
      }
      all.emplace_back();
      all.back().passed = places_[i]->passed;
      all.back().unfinished = true;
    }
    return all;
  }

 private:
  [[nodiscard]] bool goes_on(std::size_t i) const { return places_[i] && places_[i]->unfinished; }

  std::deque<std::optional<storage::LookAhead>> places_;  // a deque: its elements do not move
  std::vector<storage::ClaimOrder> orders_;
};

/// Claims that become runs. Each is a round trip of its own, after the settlements: the lock of
/// runs must not be held while settlements wait for locks.
class QueueSource::Runs {
 public:
  Runs(QueueSource& source, std::span<const storage::ClaimOrder> orders) : source_(source) {
    const auto now = source.scope_.database.clock().mono();
    for (const auto& order : orders) {
      const bool may = order.may_be_run && source.scope_.consumer.has_runs();
      auto run = may ? source.runs_.next_run(order.batch_size, now) : std::nullopt;
      if (!run) singles_.push_back(order);
      claims_.push_back({&order, run});
    }
  }

  /// The other claims.
  [[nodiscard]] std::span<const storage::ClaimOrder> singles() const { return singles_; }

  /// Makes the claims. Returns the results of all claims.
  [[nodiscard]] std::vector<storage::Claimed> claim(std::vector<storage::Claimed> singles,
                                                    const std::stop_token& stop) {
    if (singles_.size() == claims_.size()) return singles;
    std::vector<storage::Claimed> all;
    auto next = singles.begin();
    for (const auto& [order, run] : claims_) {
      all.push_back(run ? source_.claim_run(*order, *run, stop) : std::move(*next++));
    }
    return all;
  }

 private:
  QueueSource& source_;
  std::vector<storage::ClaimOrder> singles_;
  std::vector<std::pair<const storage::ClaimOrder*, std::optional<storage::RunOrder>>> claims_;
};

WorkResult QueueSource::settle_and_claim(const WorkRequest& request) {
  const Scans scans(scope_, request);
  Runs runs(*this, scans.orders());
  auto rest = request;
  rest.claims = runs.singles();
  WorkResult result;
  if (!rest.settlements.empty() || !rest.claims.empty()) result = settle_then_claim(rest);
  if (rest.careful && !result.settleable) result.settleable.emplace();
  result.claimed = scans.answers(runs.claim(std::move(result.claimed), request.stop));
  return result;
}

WorkResult QueueSource::settle_then_claim(const WorkRequest& request) {
  if (request.careful) return settle_carefully(request);
  try {
    return settle_all(request);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::lock_timeout) throw;
    scope_.count_metric("dovetail_settlement_blocked_total", 1);
    return settle_carefully(request);
  }
}

WorkResult QueueSource::settle_all(const WorkRequest& request) {
  const auto claims = claims_of(request.settlements);
  const auto ended = runs_.ended_with(claims);
  storage::WorkAnswer answer;
  scope_.database.write(
      {.single_statement = true, .service = true, .gives_up_locks = true, .stop = request.stop},
      [&](storage::WriteSession& session) {
        answer = scope_.consumer.work(session, {.owner = scope_.owner,
                                                .settlements = request.settlements,
                                                .keep_done = scope_.keep_done,
                                                .lock_patience = lock_patience,
                                                .ended_runs = ended,
                                                .claims = request.claims});
      });
  for (const auto& claim : claims) runs_.end(claim);
  runs_.closed(ended);
  return {
      .settled = answer.settled, .claimed = std::move(answer.claimed), .settleable = std::nullopt};
}

WorkResult QueueSource::settle_carefully(const WorkRequest& request) {
  auto claims = claims_of(request.settlements);
  std::ranges::sort(claims, {}, &Claim::id);
  storage::WorkAnswer answer;
  std::vector<MessageId> settleable;
  std::vector<std::int64_t> ended;
  scope_.database.write(
      {.service = true, .stop = request.stop}, [&](storage::WriteSession& session) {
        settleable.clear();
        if (!claims.empty()) {
          for (const auto& claim : scope_.consumer.settleable(session, scope_.owner, claims)) {
            settleable.push_back(claim.id);
          }
        }
        std::vector<storage::Settlement> settlements;
        std::ranges::copy_if(request.settlements, std::back_inserter(settlements),
                             [&](const storage::Settlement& each) {
                               return std::ranges::binary_search(settleable, each.claim.id);
                             });
        ended = runs_.ended_with(claims_of(settlements));
        answer = scope_.consumer.work(session, {.owner = scope_.owner,
                                                .settlements = settlements,
                                                .keep_done = scope_.keep_done,
                                                .ended_runs = ended,
                                                .claims = request.claims});
      });
  for (const auto& claim : claims) {
    if (std::ranges::binary_search(settleable, claim.id)) runs_.end(claim);
  }
  runs_.closed(ended);
  return {.settled = answer.settled,
          .claimed = std::move(answer.claimed),
          .settleable = std::move(settleable)};
}

std::vector<MessageId> QueueSource::renew(std::span<const Claim> claims,
                                          std::chrono::milliseconds lease,
                                          const std::stop_token& stop) {
  std::vector<MessageId> held;
  scope_.database.write(
      {.single_statement = true, .repeatable = true, .service = true, .stop = stop},
      [&](storage::WriteSession& session) {
        held = scope_.consumer.renew(session, scope_.owner, claims, lease);
      });
  if (std::ranges::any_of(claims, storage::is_of_run)) {
    // They have leases of their own now.
    runs_.note_slow(scope_.database.clock().mono());
    for (const auto& claim : claims) runs_.end(claim);
    close_ended_runs(stop);
  }
  return held;
}

std::optional<storage::Settlement> QueueSource::deliver(Delivery& delivery) {
  auto settlement = invoke(scope_, delivery);
  if (!settlement && storage::is_of_run(delivery.claimed.claim)) {
    runs_.note_slow(scope_.database.clock().mono());
    runs_.end(delivery.claimed.claim);
  }
  return settlement;
}

storage::Claimed QueueSource::claim_run(const storage::ClaimOrder& order,
                                        const storage::RunOrder& run, const std::stop_token& stop) {
  storage::Claimed claimed;
  try {
    close_ended_runs(stop);
    scope_.database.write({.single_statement = true, .service = true, .once = true, .stop = stop},
                          [&](storage::WriteSession& session) {
                            claimed = scope_.consumer.claim_run(session, order, run);
                          });
    if (claimed.is_run) runs_.opened(run.run, claimed.entries);
    if (!claimed.entries.empty()) return claimed;
    runs_.note_none(scope_.database.clock().mono());
    return claim_singly(order, stop);
  } catch (const std::exception& error) {
    // The settlements of the round trip have succeeded. The next round trip meets the failure
    // again.
    scope_.log_error("round_trip_failed", "dovetail_round_trip_failed_total", error);
    runs_.opened(run.run, {});
    return {};
  }
}

storage::Claimed QueueSource::claim_singly(const storage::ClaimOrder& order,
                                           const std::stop_token& stop) {
  storage::Claimed claimed;
  scope_.database.write(
      {.single_statement = true, .service = true, .stop = stop},
      [&](storage::WriteSession& session) { claimed = scope_.consumer.claim(session, order); });
  return claimed;
}

void QueueSource::close_ended_runs(const std::stop_token& stop) {
  const auto ended = runs_.ended_with({});
  if (ended.empty()) return;
  scope_.database.write(
      {.single_statement = true, .repeatable = true, .service = true, .stop = stop},
      [&](storage::WriteSession& session) {
        scope_.consumer.close_runs(session, scope_.owner, ended);
      });
  runs_.closed(ended);
}

void QueueSource::reset_lost_leases(std::span<const MessageId> ids, const std::stop_token& stop) {
  scope_.database.write(
      {.single_statement = true, .repeatable = true, .service = true, .stop = stop},
      [&](storage::WriteSession& session) { scope_.consumer.absolve(session, ids); });
}

void QueueSource::uncharge(std::span<const MessageId> ids, const std::stop_token& stop) {
  scope_.database.write(
      {.single_statement = true, .service = true, .stop = stop},
      [&](storage::WriteSession& session) { scope_.consumer.uncharge(session, ids); });
}

}  // namespace dovetail::runtime
