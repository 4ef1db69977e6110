#include "coordinator/rules.hpp"

#include <stdexcept>
#include <string>

#include "core/require.hpp"
#include "core/text.hpp"
#include "inbox/rules.hpp"
#include "queue/new_messages.hpp"

namespace dovetail::coordinator {
namespace {

/// The answer of a call has the work of two queues, and PostgreSQL limits a jsonb to 256 MiB.
constexpr std::size_t largest_claim_bytes = std::size_t{64} << 20;

using std::chrono::milliseconds;

constexpr std::int64_t day_ms = milliseconds{std::chrono::hours{24}}.count();
constexpr std::int64_t longest_delay_ms = 365 * day_ms;
constexpr std::size_t most_error_bytes = 2048;

void require_duration(const char* what, milliseconds value, milliseconds least) {
  require_range(what, value.count(), least.count(), day_ms);
}

void require_event(bool is_event, const std::optional<std::string>& stream) {
  if (is_event && stream.value_or("").empty())
    throw std::invalid_argument("a message with is_event needs a stream");
}

storage::WorkPart part_of(WorkKind queue, const WorkBatch& batch, const QueueOptions& options) {
  storage::WorkPart part;
  part.max_attempts = options.max_attempts;
  part.keep_done = options.retain_done.count() > 0;
  for (const auto& each : batch.completions) {
    if (each.queue == queue) part.completions.push_back(each);
  }
  for (const auto& each : batch.failures) {
    if (each.queue != queue) continue;
    require_failure(each.error, each.delay);
    auto& failure = part.failures.emplace_back(each);
    failure.error = core::trimmed(core::printable(each.error), most_error_bytes);
  }
  for (const auto& each : batch.releases) {
    if (each.queue == queue) part.releases.push_back(each);
  }
  for (const auto& each : batch.renewals) {
    if (each.queue == queue) part.renewals.push_back(each.claim);
  }
  const auto& claim = queue == WorkKind::outbox ? batch.claim_outbox : batch.claim_inbox;
  if (claim) {
    require_claim(*claim);
    part.claim = &*claim;
  }
  return part;
}

}  // namespace

void require_range(const char* what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    throw std::out_of_range(std::string{what} + " must be " + std::to_string(least) + " to " +
                            std::to_string(most));
  }
}

void require_options(const WorkOptions& options) {
  require_range("partition_count", options.partition_count, 1, 1'000'000);
  require_range("max_partitions_per_instance", options.max_partitions_per_instance, 1, 1'000'000);
  require_duration("lease (in milliseconds)", options.lease, milliseconds{1});
  require_duration("stale_after (in milliseconds)", options.stale_after, milliseconds{1'000});
  require_duration("help_after (in milliseconds)", options.help_after, milliseconds{1});
}

void require_options(const CoordinatorOptions& options) {
  require_options(options.work);
  require_range("interval (in milliseconds)", options.interval.count(), 1, 3'600'000);
  require_range("flush_at", options.flush_at, 1, 10'000);
  require_range("max_buffered", options.max_buffered, 1, 1'000'000);
  if (options.claim_outbox) require_claim(*options.claim_outbox);
  if (options.claim_inbox) require_claim(*options.claim_inbox);
  const bool claims = options.claim_outbox || options.claim_inbox;
  if (options.strategy == WorkStrategy::interval && claims && !options.on_result) {
    throw std::invalid_argument(
        "an interval coordinator that claims needs on_result: its thread claims work, and nobody "
        "would see it");
  }
}

void require_claim(const WorkClaim& claim) {
  core::require_batch_size("batch_size", claim.batch_size);
  if (claim.topics.size() > 1'000)
    throw std::invalid_argument("a claim must not name more than 1,000 topics");
  for (const auto& topic : claim.topics) queue::require_topic(topic);
  if (claim.max_bytes == 0 || claim.max_bytes > largest_claim_bytes)
    throw std::out_of_range("max_bytes must be 1 to 64 MiB");
}

void require_failure(std::string_view error, std::optional<milliseconds> delay) {
  if (error.empty()) throw std::invalid_argument("error must not be empty");
  if (delay) require_range("delay (in milliseconds)", delay->count(), 0, longest_delay_ms);
}

void require_outbox(const EnqueueRequest& request, const StoreOptions& options,
                    const QueueOptions& limits) {
  queue::checked(request, queue::limits_of(limits));
  require_event(options.is_event, request.stream);
  if (!request.joins.empty()) {
    throw std::invalid_argument(
        "a message of the coordinator cannot be a step of joins: use Outbox::enqueue()");
  }
}

void require_inbox(const InboxRequest& request, const StoreOptions& options,
                   const QueueOptions& limits) {
  inbox::checked_arrival(request, limits);
  require_event(options.is_event, request.stream);
}

void fill(storage::WorkBatchOrder& order, const WorkBatch& batch, const QueueOptions& outbox,
          const QueueOptions& inbox) {
  order.outbox = part_of(WorkKind::outbox, batch, outbox);
  order.inbox = part_of(WorkKind::inbox, batch, inbox);
  order.outbox.on_stream_failure = order.options.on_stream_failure;
  order.inbox.on_stream_failure = order.options.on_stream_failure;
  for (const auto& [request, options] : batch.outbox_messages) {
    require_outbox(request, options, outbox);
    order.outbox.messages.push_back(queue::checked(request, outbox));
    order.outbox.is_event.push_back(options.is_event);
    order.outbox.headers.push_back(&request.headers);
  }
  for (const auto& [request, options, id] : batch.inbox_messages) {
    require_inbox(request, options, inbox);
    auto& arrival = order.inbox.arrivals.emplace_back(inbox::checked_arrival(request, inbox));
    if (id) arrival.message.id = *id;
    arrival.message.fresh = !id;
    order.inbox.is_event.push_back(options.is_event);
    order.inbox.headers.push_back(&request.headers);
  }
}

}  // namespace dovetail::coordinator
