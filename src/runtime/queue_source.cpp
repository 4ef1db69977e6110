#include "runtime/queue_source.hpp"

#include <algorithm>
#include <deque>

#include "dovetail/error.hpp"

namespace dovetail::runtime {
namespace {

/// The longest wait of a settlement for a lock that another transaction holds.
constexpr std::chrono::milliseconds lock_patience{100};

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

WorkResult QueueSource::settle_and_claim(const WorkRequest& request) {
  const Scans scans(scope_, request);
  auto rest = request;
  rest.claims = scans.orders();
  WorkResult result;
  if (!rest.settlements.empty() || !rest.claims.empty()) result = settle_then_claim(rest);
  if (rest.careful && !result.settleable) result.settleable.emplace();
  result.claimed = scans.answers(std::move(result.claimed));
  return result;
}

WorkResult QueueSource::settle_then_claim(const WorkRequest& request) {
  if (request.careful) return settle_carefully(request);
  try {
    return settle_all(request);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::lock_timeout) throw;
    scope_.metrics.count(scope_.event("settlement_blocked"), 1,
                         {{"store", scope_.database.name()}});
    return settle_carefully(request);
  }
}

WorkResult QueueSource::settle_all(const WorkRequest& request) {
  storage::WorkAnswer answer;
  scope_.database.write(
      {.single_statement = true, .service = true, .gives_up_locks = true, .stop = request.stop},
      [&](storage::WriteSession& session) {
        answer = scope_.consumer.work(session, {.owner = scope_.owner,
                                                .settlements = request.settlements,
                                                .keep_done = scope_.keep_done,
                                                .lock_patience = lock_patience,
                                                .claims = request.claims});
      });
  return {
      .settled = answer.settled, .claimed = std::move(answer.claimed), .settleable = std::nullopt};
}

WorkResult QueueSource::settle_carefully(const WorkRequest& request) {
  std::vector<Claim> claims;
  claims.reserve(request.settlements.size());
  for (const auto& each : request.settlements) claims.push_back(each.claim);
  std::ranges::sort(claims, {}, &Claim::id);
  storage::WorkAnswer answer;
  std::vector<MessageId> settleable;
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
        answer = scope_.consumer.work(session, {.owner = scope_.owner,
                                                .settlements = settlements,
                                                .keep_done = scope_.keep_done,
                                                .claims = request.claims});
      });
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
  return held;
}

void QueueSource::absolve(std::span<const MessageId> ids, const std::stop_token& stop) {
  scope_.database.write(
      {.single_statement = true, .repeatable = true, .service = true, .stop = stop},
      [&](storage::WriteSession& session) { scope_.consumer.absolve(session, ids); });
}

}  // namespace dovetail::runtime
