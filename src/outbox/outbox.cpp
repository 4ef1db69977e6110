#include "dovetail/outbox.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/text.hpp"
#include "storage/database.hpp"
#include "storage/outbox_store.hpp"

namespace dovetail {
namespace {

constexpr std::size_t max_topic_characters = 255;
constexpr std::size_t max_correlation_id_characters = 255;
constexpr std::size_t largest_payload_limit = std::size_t{64} << 20;
constexpr int max_batch_size = 10'000;
constexpr std::chrono::milliseconds max_lease = std::chrono::hours{24};

std::size_t require_text(const char* what, std::string_view text) {
  const auto length = core::utf8_length(text);
  if (!length) throw std::invalid_argument(std::string{what} + " must be valid UTF-8 without NUL");
  return *length;
}

void require_length(const char* what, std::size_t length, std::size_t limit) {
  if (length > limit) {
    throw std::invalid_argument(std::string{what} + " must not exceed " + std::to_string(limit) +
                                " characters, got " + std::to_string(length));
  }
}

void require_due_at(WallTime due_at) {
  using std::chrono::January;
  using std::chrono::year;
  constexpr WallTime first = std::chrono::sys_days{year{1} / January / 1};
  constexpr WallTime last = std::chrono::sys_days{year{10000} / January / 1};
  if (due_at < first || due_at >= last) throw std::out_of_range("due_at must lie in the years 1 to 9999");
}

/// Checks every limit; what it returns points into `request`.
storage::NewMessage checked(const EnqueueRequest& request, const OutboxOptions& options) {
  if (request.topic.empty()) throw std::invalid_argument("topic must not be empty");
  require_length("topic", require_text("topic", request.topic), max_topic_characters);
  if (request.payload.size() > options.max_payload_bytes) {
    throw std::invalid_argument("payload must not exceed " + std::to_string(options.max_payload_bytes) +
                                " bytes, got " + std::to_string(request.payload.size()));
  }
  require_text("payload", request.payload);
  if (request.due_at) require_due_at(*request.due_at);

  storage::NewMessage message{.id = request.message_id ? *request.message_id : OutboxMessageId::generate(),
                              .topic = request.topic,
                              .payload = request.payload,
                              .correlation_id = std::nullopt,
                              .due_at = request.due_at};
  if (request.correlation_id && !request.correlation_id->empty()) {
    const auto length = require_text("correlation_id", *request.correlation_id);
    require_length("correlation_id", length, max_correlation_id_characters);
    message.correlation_id = *request.correlation_id;
  }
  if (message.id.is_nil()) throw std::invalid_argument("message_id must not be the nil UUID");
  return message;
}

struct CheckedBatch {
  std::vector<storage::NewMessage> messages;
  std::vector<OutboxMessageId> ids;
  bool has_callers_ids = false;
};

CheckedBatch checked(std::span<const EnqueueRequest> requests, const OutboxOptions& options) {
  CheckedBatch batch;
  batch.messages.reserve(requests.size());
  batch.ids.reserve(requests.size());
  for (const auto& request : requests) {
    batch.messages.push_back(checked(request, options));
    batch.ids.push_back(batch.messages.back().id);
    batch.has_callers_ids |= request.message_id.has_value();
  }
  return batch;
}

void require_claimable(const ClaimRequest& request) {
  if (request.owner.is_nil()) throw std::invalid_argument("owner must not be the nil UUID");
  if (request.batch_size < 1 || request.batch_size > max_batch_size) {
    throw std::out_of_range("batch_size must be 1 to " + std::to_string(max_batch_size) + ", got " +
                            std::to_string(request.batch_size));
  }
  if (request.lease < std::chrono::milliseconds{1} || request.lease > max_lease) {
    throw std::out_of_range("lease must be 1 ms to 24 h");
  }
}

}  // namespace

std::string_view to_string(OutboxStatus status) {
  switch (status) {
    case OutboxStatus::ready:
      return "ready";
    case OutboxStatus::in_progress:
      return "in_progress";
    case OutboxStatus::done:
      return "done";
    case OutboxStatus::failed:
      return "failed";
  }
  return "unknown";
}

Outbox::Outbox(storage::Database& database, OutboxOptions options, Logger log)
    : database_(&database), options_(options), log_(std::move(log)) {
  if (options_.max_payload_bytes > largest_payload_limit) {
    throw std::out_of_range("max_payload_bytes must not exceed " + std::to_string(largest_payload_limit));
  }
}

OutboxMessageId Outbox::enqueue(const EnqueueRequest& request) {
  const auto message = checked(request, options_);
  database_->write({.single_statement = true, .repeatable = true},
                   [&](storage::WriteSession& session) { database_->outbox().enqueue(session, message); });
  log_enqueued(message);
  return message.id;
}

OutboxMessageId Outbox::enqueue(Transaction& transaction, const EnqueueRequest& request) {
  const auto message = checked(request, options_);
  database_->outbox().enqueue(transaction.session(), message);
  log_enqueued(message);
  return message.id;
}

std::vector<OutboxMessageId> Outbox::enqueue_many(std::span<const EnqueueRequest> requests) {
  auto batch = checked(requests, options_);
  if (batch.messages.empty()) return {};
  bool repeated = batch.has_callers_ids;
  database_->write({.repeatable = true}, [&](storage::WriteSession& session) {
    const bool maybe_there = std::exchange(repeated, true);
    database_->outbox().enqueue_many(session, batch.messages, maybe_there);
  });
  log_.write(LogLevel::info, "outbox.enqueued_many",
             {{"store", database_->name()}, {"count", batch.ids.size()}});
  return std::move(batch.ids);
}

std::vector<OutboxMessageId> Outbox::enqueue_many(Transaction& transaction,
                                                  std::span<const EnqueueRequest> requests) {
  auto batch = checked(requests, options_);
  if (batch.messages.empty()) return {};
  database_->outbox().enqueue_many(transaction.session(), batch.messages, batch.has_callers_ids);
  log_.write(LogLevel::info, "outbox.enqueued_many",
             {{"store", database_->name()}, {"count", batch.ids.size()}});
  return std::move(batch.ids);
}

std::vector<ClaimedMessage> Outbox::claim(const ClaimRequest& request) {
  require_claimable(request);
  std::vector<ClaimedMessage> claimed;
  database_->write({.single_statement = true, .stop = request.stop}, [&](storage::WriteSession& session) {
    claimed = database_->outbox().claim(session, request);
  });
  log_.write(LogLevel::debug, "outbox.claimed",
             {{"store", database_->name()}, {"owner", request.owner.to_string()}, {"count", claimed.size()}});
  return claimed;
}

std::size_t Outbox::ack(OwnerToken owner, std::span<const Claim> claims) {
  if (claims.empty()) return 0;
  // In id order: the lock order of the whole house.
  std::vector<Claim> ordered(claims.begin(), claims.end());
  std::ranges::sort(ordered, {}, [](const Claim& claim) { return std::pair{claim.id, claim.epoch}; });
  std::size_t acked = 0;
  database_->write({.single_statement = true}, [&](storage::WriteSession& session) {
    acked = database_->outbox().ack(session, owner, ordered);
  });
  log_.write(LogLevel::debug, "outbox.acked",
             {{"store", database_->name()},
              {"owner", owner.to_string()},
              {"asked", claims.size()},
              {"count", acked}});
  return acked;
}

OutboxCounts Outbox::counts() {
  OutboxCounts counts;
  database_->read([&](storage::ReadSession& session) { counts = database_->outbox().counts(session); });
  return counts;
}

void Outbox::log_enqueued(const storage::NewMessage& message) const {
  if (!log_.enabled(LogLevel::info)) return;
  log_.write(LogLevel::info, "outbox.enqueued",
             {{"store", database_->name()},
              {"topic", message.topic},
              {"message_id", message.id.to_string()},
              {"correlation_id", message.correlation_id.value_or("")}});
}

}  // namespace dovetail
