#include <unistd.h>

#include <algorithm>

#include "coordinator/holdings.hpp"
#include "coordinator/rules.hpp"
#include "core/host.hpp"
#include "dovetail/work.hpp"
#include "queue/enqueued_count.hpp"
#include "storage/database.hpp"
#include "storage/queue_names.hpp"

namespace dovetail {
namespace {

bool has_content(const WorkBatch& batch) {
  return batch.operations() > 0 || batch.claim_outbox || batch.claim_inbox;
}

/// The commit wakes the workers of the queues that got messages.
void wake(storage::WriteSession& session, const storage::WorkBatchOrder& order) {
  namespace names = storage::queue_names;
  const auto adds = [](const storage::WorkPart& part) {
    return !part.messages.empty() || !part.arrivals.empty() || !part.failures.empty() ||
           !part.releases.empty();
  };
  const auto has_events = [](const storage::WorkPart& part) {
    return std::ranges::find(part.is_event, true) != part.is_event.end();
  };
  if (adds(order.outbox)) session.wakes(names::outbox);
  if (adds(order.inbox)) session.wakes(names::inbox);
  if (has_events(order.outbox) || has_events(order.inbox)) session.wakes(names::events);
}

/// An earlier run of the same call may have taken effect. What it stored is not a duplicate, and
/// the results that it reported are not lost.
void forgive(WorkResult& result, const storage::WorkBatchOrder& order) {
  for (std::size_t i = 0; i < result.outbox.size(); ++i) {
    auto& stored = result.outbox[i];
    const bool is_own = stored.id == std::optional{order.outbox.messages[i].id};
    if (stored.outcome == StoreOutcome::duplicate && is_own) stored.outcome = StoreOutcome::stored;
  }
  result.lost.clear();
}

}  // namespace

std::string_view to_string(WorkKind kind) {
  return kind == WorkKind::outbox ? "outbox" : "inbox";
}

std::string_view to_string(StoreOutcome outcome) {
  switch (outcome) {
    case StoreOutcome::stored:
      return "stored";
    case StoreOutcome::duplicate:
      return "duplicate";
    case StoreOutcome::hash_mismatch:
      return "hash_mismatch";
    case StoreOutcome::stream_closed:
      return "stream_closed";
  }
  return "unknown";
}

std::size_t WorkBatch::operations() const {
  return completions.size() + failures.size() + releases.size() + outbox_messages.size() +
         inbox_messages.size() + renewals.size();
}

WorkBatches::WorkBatches(storage::Database& database, Outbox& outbox, Inbox& inbox, Logger log,
                         Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::WorkStore>()),
      outbox_(&outbox),
      inbox_(&inbox),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      instance_(InstanceId::generate()),
      holdings_(std::make_unique<coordinator::Holdings>(database.clock())) {}

/// A process that ends without this is stale after a while.
WorkBatches::~WorkBatches() {
  for (const auto& instance : holdings_->instances()) {
    try {
      remove(instance, true);
    } catch (const std::exception& error) {
      log_.write(LogLevel::warn, "coordinator.leave_failed",
                 {{"store", database_->name()}, {"error", error.what()}});
    }
  }
}

WorkResult WorkBatches::process_work_batch(const WorkBatch& batch, const WorkOptions& options) {
  return process(batch, options, Sending{});
}

WorkResult WorkBatches::process(const WorkBatch& batch, const WorkOptions& options,
                                const Sending& sending) {
  coordinator::require_options(options);
  storage::WorkBatchOrder order{.instance = options.instance.value_or(instance_),
                                .options = options,
                                .host = core::host_name(),
                                .pid = getpid(),
                                .version = {}};
  coordinator::fill(order, batch, outbox_->options(), inbox_->options().queue);
  if (!has_content(batch)) return {};
  if (order.claims()) holdings_->join(order.instance);
  const bool new_ids =
      sending.new_ids || std::ranges::all_of(order.outbox.messages, &storage::NewMessage::fresh);
  WorkResult result;
  bool may_have_run = sending.may_have_run;
  database_->write({.single_statement = store_->is_single_statement(), .repeatable = true},
                   [&](storage::WriteSession& session, const storage::Attempt& attempt) {
                     may_have_run = sending.may_have_run || attempt.after_doubt;
                     order.fresh = new_ids && !may_have_run;
                     result = store_->process(session, order);
                     wake(session, order);
                   });
  if (may_have_run) forgive(result, order);
  note(batch, options, result);
  return result;
}

bool WorkBatches::leave(const WorkOptions& options) {
  const auto instance = options.instance.value_or(instance_);
  const bool left = remove(instance, false);
  return holdings_->forget(instance) || left;
}

bool WorkBatches::remove(InstanceId instance, bool once) {
  const WorkOptions options{.instance = instance};
  storage::WorkBatchOrder order{.instance = instance,
                                .options = options,
                                .host = core::host_name(),
                                .pid = getpid(),
                                .version = {}};
  const WorkBatch batch{.releases = holdings_->releases_of(instance)};
  coordinator::fill(order, batch, outbox_->options(), inbox_->options().queue);
  bool left = false;
  database_->write({.single_statement = !has_content(batch), .repeatable = true, .once = once},
                   [&](storage::WriteSession& session) {
                     if (has_content(batch)) {
                       store_->process(session, order);
                       wake(session, order);
                     }
                     left = store_->leave(session, instance);
                   });
  return left;
}

// --- logs and metrics

void WorkBatches::count_stored(const WorkBatch& batch, const WorkResult& result) const {
  queue::EnqueuedCount outbox;
  for (std::size_t i = 0; i < result.outbox.size(); ++i) {
    outbox.add(batch.outbox_messages[i].message.topic, result.outbox[i].stored());
  }
  outbox.report(metrics_, database_->name(), storage::queue_names::outbox);
  queue::EnqueuedCount inbox;
  for (std::size_t i = 0; i < result.inbox.size(); ++i) {
    inbox.add(batch.inbox_messages[i].message.topic, result.inbox[i].stored());
  }
  inbox.report(metrics_, database_->name(), storage::queue_names::inbox);
}

void WorkBatches::count(const WorkBatch& batch, const WorkResult& result) const {
  const auto& store = database_->name();
  const auto operations = batch.operations();
  const auto orphans = std::ranges::count(result.work, true, &Work::orphaned);
  metrics_.count("dovetail_coordinator_calls_total", 1, {{"store", store}});
  metrics_.count("dovetail_coordinator_operations_total", operations, {{"store", store}});
  metrics_.count("dovetail_coordinator_calls_saved_total", std::max<std::size_t>(operations, 1) - 1,
                 {{"store", store}});
  metrics_.count("dovetail_coordinator_claimed_total", result.work.size(), {{"store", store}});
  metrics_.count("dovetail_coordinator_orphans_total", static_cast<std::size_t>(orphans),
                 {{"store", store}});
  metrics_.count("dovetail_coordinator_lost_total", result.lost.size(), {{"store", store}});
  count_stored(batch, result);
  for (const auto* stored : {&result.outbox, &result.inbox}) {
    for (const auto& each : *stored) {
      if (each.stored()) continue;
      metrics_.count("dovetail_coordinator_refused_total", 1,
                     {{"store", store}, {"outcome", to_string(each.outcome)}});
    }
  }
}

void WorkBatches::note(const WorkBatch& batch, const WorkOptions& options,
                       const WorkResult& result) {
  const auto& store = database_->name();
  count(batch, result);
  const auto violations =
      holdings_->note(options.instance.value_or(instance_), batch, result, options.lease);
  if (violations > 0) {
    metrics_.count("dovetail_coordinator_order_violations_total", violations, {{"store", store}});
    log_.write(LogLevel::error, "coordinator.order_violation",
               {{"store", store}, {"streams", violations}});
  }
  metrics_.gauge("dovetail_coordinator_leases", static_cast<double>(holdings_->held()),
                 {{"store", store}});
  if (!result.share) return;
  const auto& [live, rank, partitions, stale] = *result.share;
  metrics_.gauge("dovetail_coordinator_partitions", partitions, {{"store", store}});
  metrics_.gauge("dovetail_coordinator_instances", live, {{"store", store}});
  if (stale == 0) return;
  metrics_.count("dovetail_coordinator_stale_instances_total", static_cast<std::uint64_t>(stale),
                 {{"store", store}});
  log_.write(LogLevel::warn, "coordinator.stale_instances",
             {{"store", store}, {"instances", stale}});
}

}  // namespace dovetail
