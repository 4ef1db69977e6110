// Claiming and settling; see also operations.cpp.
#include "dovetail/queue.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/require.hpp"
#include "core/text.hpp"
#include "queue/new_messages.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

using core::require_batch_size;
using core::require_text;
using queue::require_max_attempts;
using queue::require_topic;
using storage::session_of;

constexpr std::size_t largest_payload_limit = std::size_t{64} << 20;
constexpr std::size_t max_error_bytes = 2048;
constexpr std::size_t largest_claim_bytes = std::size_t{1} << 40;
constexpr std::size_t most_topics = 1'000;
constexpr int no_limit = std::numeric_limits<int>::max();
constexpr std::chrono::milliseconds max_lease = std::chrono::hours{24};
constexpr std::chrono::milliseconds max_delay = std::chrono::hours{24 * 365};

void require_owner(OwnerToken owner) {
  if (owner.is_nil()) throw std::invalid_argument("owner must not be the nil UUID");
}

void require_lease(std::chrono::milliseconds lease) {
  if (lease < std::chrono::milliseconds{1} || lease > max_lease) {
    throw std::out_of_range("lease must be 1 ms to 24 h");
  }
}

void require_delay(std::optional<std::chrono::milliseconds> delay) {
  if (delay && (*delay < std::chrono::milliseconds::zero() || *delay > max_delay)) {
    throw std::out_of_range("delay must be zero to a year");
  }
}

std::string_view checked_error(std::string_view error) {
  require_text("error", error);
  return core::trimmed(error, max_error_bytes);
}

void require_claim(const ClaimRequest& request) {
  require_owner(request.owner);
  require_batch_size("batch_size", request.batch_size);
  require_lease(request.lease);
  if (request.topics.size() > most_topics) {
    throw std::out_of_range("topics must not be more than " + std::to_string(most_topics));
  }
  for (const auto& topic : request.topics) require_topic(topic);
  if (request.max_bytes < 1 || request.max_bytes > largest_claim_bytes) {
    throw std::out_of_range("max_bytes must be 1 to " + std::to_string(largest_claim_bytes));
  }
}

/// The label of a settlement that a call made, which logged `event`.
std::string_view outcome_of(std::string_view event) {
  if (event == "acked") return "done";
  return event == "failed" ? "dead_letter" : event;
}

}  // namespace

std::string_view to_string(MessageStatus status) {
  switch (status) {
    case MessageStatus::ready:
      return "ready";
    case MessageStatus::in_progress:
      return "in_progress";
    case MessageStatus::done:
      return "done";
    case MessageStatus::failed:
      return "failed";
  }
  return "unknown";
}

WorkQueue::WorkQueue(storage::Database& database, std::string_view name, QueueOptions options,
                     Logger log, Metrics metrics)
    : database_(&database),
      consumer_(&database.queue(name).consumer),
      operator_(&database.queue(name).operations),
      name_(name),
      options_(options),
      log_(std::move(log)),
      metrics_(std::move(metrics)) {
  if (options_.max_payload_bytes > largest_payload_limit) {
    throw std::out_of_range("max_payload_bytes must not exceed " +
                            std::to_string(largest_payload_limit));
  }
  require_max_attempts(options_.max_attempts);
  if (options_.retain_done < std::chrono::seconds::zero() ||
      options_.retain_done > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("retain_done must be zero to ten years");
  }
}

// --- claim and settle

std::vector<ClaimedMessage> WorkQueue::claim(const ClaimRequest& request) {
  return claim(request, false);
}

std::vector<ClaimedMessage> WorkQueue::claim_streams(const ClaimRequest& request) {
  return claim(request, true);
}

std::vector<ClaimedMessage> WorkQueue::claim(const ClaimRequest& request, bool streams) {
  require_claim(request);
  if (request.max_attempts) require_max_attempts(*request.max_attempts);
  const storage::TopicFilter topics{.topics = {request.topics.begin(), request.topics.end()}};
  const storage::ClaimOrder order{.owner = request.owner,
                                  .batch_size = request.batch_size,
                                  .lease = request.lease,
                                  .max_attempts = request.max_attempts.value_or(no_limit),
                                  .topics = request.topics.empty() ? nullptr : &topics,
                                  .max_bytes = static_cast<std::int64_t>(request.max_bytes),
                                  .streams = streams};
  std::vector<ClaimedMessage> claimed;
  database_->write({.single_statement = true, .stop = request.stop},
                   [&](storage::WriteSession& session) {
                     auto answer = consumer_->claim(session, order);
                     claimed.clear();
                     for (auto& entry : answer.entries) claimed.push_back(std::move(entry.claimed));
                   });
  metrics_.count("dovetail_claimed_total", claimed.size(),
                 {{"store", database_->name()}, {"queue", name_}});
  log_.write(LogLevel::debug, event("claimed"),
             {{"store", database_->name()},
              {"owner", request.owner.to_string()},
              {"count", claimed.size()}});
  return claimed;
}

void WorkQueue::count_call(std::string_view event, std::size_t count) const {
  if (event == "renewed") {
    metrics_.count("dovetail_lease_renewed_total", count,
                   {{"store", database_->name()}, {"queue", name_}});
    return;
  }
  // A claim does not name its topic.
  metrics_.count("dovetail_settled_total", count,
                 {{"store", database_->name()},
                  {"queue", name_},
                  {"topic", ""},
                  {"outcome", outcome_of(event)}});
}

template <class Call>
std::size_t WorkQueue::settle(const char* what, OwnerToken owner, std::span<const Claim> claims,
                              const Call& call, Transaction* transaction) {
  require_owner(owner);
  if (claims.empty()) return 0;
  // Sorts by id: every transaction locks messages in this order.
  std::vector<Claim> ordered(claims.begin(), claims.end());
  std::ranges::sort(ordered, {}, [](const Claim& claim) {
    return std::pair{claim.id, claim.epoch};
  });
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  const std::size_t count = call(std::span<const Claim>{ordered});
  const auto note = [this, what, owner, asked = claims.size(), count] {
    count_call(what, count);
    log_.write(LogLevel::debug, event(what),
               {{"store", database_->name()},
                {"owner", owner.to_string()},
                {"asked", asked},
                {"count", count}});
  };
  if (transaction == nullptr) {
    note();
  } else {
    storage::after_commit(*transaction, note);
  }
  return count;
}

std::size_t WorkQueue::ack(OwnerToken owner, std::span<const Claim> claims) {
  return settle("acked", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = consumer_->ack(session, owner, ordered, options_.retain_done.count() > 0);
    });
    return count;
  });
}

std::size_t WorkQueue::ack(Transaction& transaction, OwnerToken owner,
                           std::span<const Claim> claims) {
  const auto ack_in = [&](std::span<const Claim> ordered) {
    return consumer_->ack(session_of(transaction), owner, ordered,
                          options_.retain_done.count() > 0);
  };
  return settle("acked", owner, claims, ack_in, &transaction);
}

std::size_t WorkQueue::abandon(OwnerToken owner, std::span<const Claim> claims,
                               const AbandonOptions& options) {
  const auto error = checked_error(options.error);
  require_delay(options.delay);
  const auto max_attempts = options.max_attempts.value_or(options_.max_attempts);
  require_max_attempts(max_attempts);
  return settle("abandoned", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = consumer_->abandon(session, owner, ordered, {error, options.on_stream_failure},
                                 options.delay, max_attempts);
    });
    return count;
  });
}

std::size_t WorkQueue::fail(OwnerToken owner, std::span<const Claim> claims, std::string_view error,
                            StreamFailure on_stream_failure) {
  const auto text = checked_error(error);
  if (text.empty()) throw std::invalid_argument("error must not be empty");
  return settle("failed", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = consumer_->fail(session, owner, ordered, {text, on_stream_failure}, 1);
    });
    return count;
  });
}

std::size_t WorkQueue::snooze(OwnerToken owner, std::span<const Claim> claims,
                              std::optional<std::chrono::milliseconds> delay) {
  require_delay(delay);
  return settle("snoozed", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
      count = consumer_->snooze(session, owner, ordered, delay);
    });
    return count;
  });
}

std::size_t WorkQueue::renew(OwnerToken owner, std::span<const Claim> claims,
                             std::chrono::milliseconds lease) {
  require_lease(lease);
  return settle("renewed", owner, claims, [&](std::span<const Claim> ordered) {
    std::size_t count = 0;
    database_->write({.single_statement = true, .repeatable = true},
                     [&](storage::WriteSession& session) {
                       count = consumer_->renew(session, owner, ordered, lease).size();
                     });
    return count;
  });
}

}  // namespace dovetail
