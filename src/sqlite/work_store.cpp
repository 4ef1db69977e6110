#include "sqlite/work_store.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "core/headers.hpp"
#include "dovetail/error.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"
#include "storage/instance_store.hpp"

namespace dovetail::sqlite {
namespace {

using std::chrono::microseconds;
using storage::WorkBatchOrder;
using storage::WorkPart;

OwnerToken owner_of(const WorkBatchOrder& order) {
  return OwnerToken{order.instance.uuid()};
}

/// The partition of a stream: an FNV-1a hash modulo the number of partitions.
int partition_of(std::string_view stream, int count) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char byte : stream) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  hash ^= hash >> 32U;
  return static_cast<int>(hash % static_cast<std::uint64_t>(count));
}

/// The topics that the instance claims, with those that it has claimed before from other queues.
std::string claimed_topics(const WorkBatchOrder& order, std::string_view before) {
  auto queues = storage::queues_from_json(before);
  const auto add = [&](WorkKind kind, const WorkPart& part) {
    if (part.claim == nullptr || part.claim->stored_only) return;
    const std::set<std::string> topics(part.claim->topics.begin(), part.claim->topics.end());
    std::erase_if(queues, [&](const auto& queue) { return queue.name == to_string(kind); });
    queues.push_back({.name = std::string{to_string(kind)},
                      .topics = {topics.begin(), topics.end()},
                      .all_topics = topics.empty()});
  };
  add(WorkKind::outbox, order.outbox);
  add(WorkKind::inbox, order.inbox);
  return storage::handlers_json(queues);
}

/// The id and epoch of a claim that is held.
using Held = std::set<std::pair<MessageId, std::int64_t>>;

/// Each claim once, in the order of the ids, if it is held.
template <class Results>
std::vector<Claim> held_claims(const Results& results, const Held& held) {
  std::map<MessageId, Claim> claims;
  for (const auto& each : results) {
    if (held.contains({each.claim.id, each.claim.epoch})) claims.emplace(each.claim.id, each.claim);
  }
  std::vector<Claim> sorted;
  sorted.reserve(claims.size());
  for (const auto& [id, claim] : claims) sorted.push_back(claim);
  return sorted;
}

}  // namespace

WorkResult WorkStore::process(storage::WriteSession& session, const WorkBatchOrder& order) {
  WorkResult result;
  Side outbox{WorkKind::outbox, parts_.outbox, order.outbox};
  Side inbox{WorkKind::inbox, parts_.inbox, order.inbox};
  for (const auto* side : {&outbox, &inbox}) settle(session, order, *side, result);
  if (!order.outbox.messages.empty()) store_outbox(session, order.fresh, outbox, result);
  if (!order.inbox.arrivals.empty()) store_inbox(session, inbox, result);
  for (const auto* side : {&outbox, &inbox}) renew(session, order, *side, result);
  beat(session, order);
  const int stale = order.joins() ? remove_stale(session, order) : 0;
  for (const auto* side : {&outbox, &inbox}) {
    if (side->part.claim == nullptr) continue;
    auto own = share(session, order, side->kind);
    claim(session, order, *side, own, result);
    own.stale_removed = stale;
    if (!side->part.claim->stored_only && !result.share) result.share = own;
  }
  return result;
}

// --- results

void WorkStore::settle(storage::WriteSession& session, const WorkBatchOrder& order,
                       const Side& side, WorkResult& result) {
  auto& consumer = side.queue.consumer();
  const auto owner = owner_of(order);
  const auto& part = side.part;
  Held held;
  std::set<MessageId> held_ids;
  std::set<MessageId> lost;
  const auto add_stages = [&](const auto& results) {
    for (const auto& each : results) {
      const std::array claims{each.claim};
      const bool holds = consumer.add_stages(session, owner, claims, each.stages) == 1;
      if (holds) held.emplace(each.claim.id, each.claim.epoch);
      (holds ? held_ids : lost).insert(each.claim.id);
    }
  };
  add_stages(part.completions);
  add_stages(part.failures);
  add_stages(part.releases);
  for (const auto& id : lost) {
    if (!held_ids.contains(id)) result.lost.push_back({side.kind, id});
  }
  const auto done = held_claims(part.completions, held);
  if (!done.empty()) result.completed += consumer.ack(session, owner, done, part.keep_done);
  for (const auto& each : part.failures) {
    const std::array claims{each.claim};
    const storage::Failed failed{each.error, part.on_stream_failure};
    result.failed += each.permanent ? consumer.fail(session, owner, claims, failed, 1)
                                    : consumer.abandon(session, owner, claims, failed, each.delay,
                                                       part.max_attempts);
  }
  const auto given_back = held_claims(part.releases, held);
  if (!given_back.empty()) result.released += consumer.snooze(session, owner, given_back, {});
}

void WorkStore::renew(storage::WriteSession& session, const WorkBatchOrder& order, const Side& side,
                      WorkResult& result) {
  if (side.part.renewals.empty()) return;
  const auto held = side.queue.consumer().renew(session, owner_of(order), side.part.renewals,
                                                order.options.lease);
  for (const auto& claim : side.part.renewals) {
    if (std::ranges::find(held, claim.id) == held.end())
      result.lost.push_back({side.kind, claim.id});
  }
}

// --- new messages and events

bool WorkStore::is_closed(storage::WriteSession& session,
                          const std::optional<std::string_view>& stream) {
  auto cursor = WriteSession::of(session).run(texts_, sql::work_process_step_closed);
  return cursor.bind(stream).step();
}

void WorkStore::store_outbox(storage::WriteSession& session, bool fresh, Side& side,
                             WorkResult& result) {
  const auto& part = side.part;
  result.outbox.resize(part.messages.size());
  std::vector<storage::NewMessage> accepted;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < part.messages.size(); ++i) {
    if (part.is_event[i] && is_closed(session, part.messages[i].stream)) {
      result.outbox[i].outcome = StoreOutcome::stream_closed;
      continue;
    }
    accepted.push_back(part.messages[i]);
    accepted.back().fresh = fresh;
    places.push_back(i);
  }
  const auto answers = parts_.outbox.roles().producer.enqueue_many(session, accepted, !fresh);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    auto& outcome = result.outbox[places[i]];
    outcome.id = answers[i];
    if (!answers[i].stored()) outcome.outcome = StoreOutcome::duplicate;
    if (answers[i].stored()) stored(session, side, places[i], accepted[i]);
  }
}

void WorkStore::store_inbox(storage::WriteSession& session, Side& side, WorkResult& result) {
  const auto& part = side.part;
  for (std::size_t i = 0; i < part.arrivals.size(); ++i) {
    const auto& arrival = part.arrivals[i];
    auto& outcome = result.inbox.emplace_back();
    if (part.is_event[i] && is_closed(session, arrival.message.stream)) {
      outcome.outcome = StoreOutcome::stream_closed;
      continue;
    }
    const auto answer = parts_.receiver.receive(session, std::span{&arrival, 1}).front();
    outcome.id = answer.id;
    if (answer.outcome == InboxEnqueueOutcome::duplicate) outcome.outcome = StoreOutcome::duplicate;
    if (answer.outcome == InboxEnqueueOutcome::hash_mismatch)
      outcome.outcome = StoreOutcome::hash_mismatch;
    if (answer.stored()) stored(session, side, i, arrival.message);
  }
}

void WorkStore::stored(storage::WriteSession& session, Side& side, std::size_t place,
                       const storage::NewMessage& message) {
  side.stored.ids.insert(message.id.uuid());
  if (message.stream) side.stored.streams.emplace(*message.stream);
  if (!side.part.is_event[place]) return;
  const auto metadata = core::to_json(*side.part.headers[place]);
  const bool has_metadata = !side.part.headers[place]->empty();
  storage::EventAppend append{.stream = *message.stream, .fresh = false};
  append.events.push_back(
      {.id = message.id.uuid(),
       .type = message.topic,
       .data = message.payload,
       .metadata = has_metadata ? std::optional<std::string_view>{metadata} : std::nullopt,
       .correlation_id = message.correlation_id,
       .causation_id = {}});
  parts_.events.append(session, append);  // a repeated id stores nothing
  const auto& context = side.queue.context();
  context.run(WriteSession::of(session), context.sql.set_stages_step_stored)
      .bind(message.id.uuid())
      .bind(std::int64_t{Stages{Stage::event_stored}.bits()})
      .run();
}

// --- instances

void WorkStore::beat(storage::WriteSession& session, const WorkBatchOrder& order) {
  using Column = sql::columns::work_process_step_heartbeat;
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  const microseconds stale = order.options.stale_after;
  std::string topics;
  {
    auto cursor = connection.run(texts_, sql::work_process_step_heartbeat);
    const bool known = cursor.bind(order.instance.uuid()).step();
    // A claim of stored messages only makes a row, too, so that its leases expire if it dies.
    if (!known && !order.claims()) return;
    const auto before = known ? cursor.text(Column::handlers) : std::string{};
    topics = claimed_topics(order, before);
    if (known && cursor.time(Column::heartbeat_at) >= now - stale / 9 &&
        cursor.integer(Column::stale_after) == stale.count() && topics == before)
      return;
  }
  connection.run(texts_, sql::work_process_step_beat)
      .bind(order.instance.uuid())
      .bind(std::string_view{order.host})
      .bind(order.pid)
      .bind(std::string_view{order.version})
      .bind(std::string_view{topics})
      .bind(now)
      .bind(std::int64_t{stale.count()})
      .run();
}

int WorkStore::remove_stale(storage::WriteSession& session, const WorkBatchOrder& order) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  std::vector<Uuid> gone;
  {
    auto cursor = connection.run(texts_, sql::work_process_step_stale);
    cursor.bind(order.instance.uuid()).bind(now);
    while (cursor.step()) gone.push_back(cursor.uuid(0));
  }
  for (const auto& owner : gone) {
    for (auto* queue : {&parts_.outbox, &parts_.inbox}) {
      const auto& context = queue->context();
      context.run(connection, context.sql.reap_expired_step_owner).bind(owner).bind(now).run();
      context.run(connection, context.sql.reap_expired_step_owner_streams)
          .bind(owner)
          .bind(now)
          .run();
    }
  }
  return static_cast<int>(gone.size());
}

WorkShare WorkStore::share(storage::WriteSession& session, const WorkBatchOrder& order,
                           WorkKind queue) {
  using Column = sql::columns::work_process;
  const auto path = "$." + std::string{to_string(queue)};
  auto cursor = WriteSession::of(session).run(texts_, sql::work_process);
  cursor.bind(order.instance.uuid()).bind(clock_->wall()).bind(std::string_view{path}).step();
  WorkShare share{.live_instances = static_cast<int>(cursor.integer(Column::live)),
                  .rank = static_cast<int>(cursor.integer(Column::rank))};
  share.live_instances = std::max(share.live_instances, 1);
  share.partitions = (order.options.partition_count - share.rank + share.live_instances - 1) /
                     share.live_instances;
  return share;
}

bool WorkStore::leave(storage::WriteSession& session, InstanceId instance) {
  auto cursor = WriteSession::of(session).run(texts_, sql::work_leave);
  return cursor.bind(instance.uuid()).run() > 0;
}

// --- claims

/// The partitions of an instance with leases, others of its share while it has room, and those that
/// have waited for long.
ClaimFilter WorkStore::filter_of(storage::WriteSession& session, const WorkBatchOrder& order,
                                 const Side& side, const WorkShare& share) {
  if (side.part.claim->stored_only) {
    return {.message = [&side](const Uuid& id) { return side.stored.ids.contains(id); },
            .stream = [&side](std::string_view stream,
                              WallTime) { return side.stored.streams.contains(stream); }};
  }
  const auto& options = order.options;
  const auto now = clock_->wall();
  const auto held = std::make_shared<std::set<int>>();  // the rounds of the claim share it
  const auto& context = side.queue.context();
  auto cursor = context.run(WriteSession::of(session), context.sql.claim_streams_step_held);
  cursor.bind(order.instance.uuid()).bind(now);
  while (cursor.step()) held->insert(partition_of(cursor.view(0), options.partition_count));
  return {.stream = [&options, share, now, held](std::string_view stream, WallTime ready_at) {
    const auto partition = partition_of(stream, options.partition_count);
    if (held->contains(partition)) return true;
    const bool is_mine = partition % share.live_instances == share.rank;
    if (!is_mine && ready_at > now - options.help_after) return false;
    if (held->size() >= static_cast<std::size_t>(options.max_partitions_per_instance)) return false;
    held->insert(partition);
    return true;
  }};
}

void WorkStore::claim(storage::WriteSession& session, const WorkBatchOrder& order, const Side& side,
                      const WorkShare& share, WorkResult& result) {
  const auto& wanted = *side.part.claim;
  if (wanted.stored_only && side.stored.ids.empty()) return;
  const storage::TopicFilter topics{{wanted.topics.begin(), wanted.topics.end()}};
  const auto filter = filter_of(session, order, side, share);
  const auto size = static_cast<std::size_t>(wanted.batch_size);
  const auto first = result.work.size();
  auto bytes = static_cast<std::int64_t>(wanted.max_bytes);
  // Half of the batch is for streams; then the other messages; then streams in what is left.
  for (const bool streams : {true, false, true}) {
    const auto taken = result.work.size() - first;
    const auto room = taken == 0 && streams ? (size + 1) / 2 : size - taken;
    if (room == 0 || bytes <= 0) return;
    const auto claimed =
        side.queue.consumer().claim(session,
                                    {.owner = owner_of(order),
                                     .batch_size = static_cast<int>(room),
                                     .lease = order.options.lease,
                                     .max_attempts = side.part.max_attempts,
                                     .topics = wanted.topics.empty() ? nullptr : &topics,
                                     .max_bytes = bytes,
                                     .streams = streams},
                                    filter);
    for (const auto& entry : claimed.entries) {
      bytes -= static_cast<std::int64_t>(entry.claimed.message.payload.size());
      result.work.push_back(
          {.queue = side.kind,
           .message = entry.claimed.message,
           .claim = entry.claimed.claim,
           .lease_until = entry.claimed.lease_until,
           .newly_stored = side.stored.ids.contains(entry.claimed.claim.id.uuid()),
           .orphaned = entry.lost_leases > 0});
    }
  }
}

}  // namespace dovetail::sqlite
