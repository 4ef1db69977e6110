// The stores of an SQLite file, and the stores that watch the ends of messages.
#include "sqlite/backlog_store.hpp"
#include "sqlite/database.hpp"
#include "sqlite/event_store.hpp"
#include "sqlite/fanout_store.hpp"
#include "sqlite/glance_store.hpp"
#include "sqlite/inbox_store.hpp"
#include "sqlite/instance_store.hpp"
#include "sqlite/job_store.hpp"
#include "sqlite/join_store.hpp"
#include "sqlite/lease_store.hpp"
#include "sqlite/migration_store.hpp"
#include "sqlite/operation_store.hpp"
#include "sqlite/queue_store.hpp"
#include "sqlite/rollup_store.hpp"
#include "sqlite/sample_store.hpp"
#include "sqlite/sql.hpp"
#include "sqlite/subscription_store.hpp"
#include "sqlite/timer_store.hpp"
#include "sqlite/work_store.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::sqlite {

// To add a component with a store, add its line here.
void Database::register_stores() {
  namespace names = storage::queue_names;
  const auto& clock = options_.clock;
  auto& outbox = registry().add_queue<QueueStore>(names::outbox, texts_, sql::outbox, clock);
  auto& inbox = registry().add_queue<QueueStore>(names::inbox, texts_, sql::inbox, clock);
  registry().add_queue<QueueStore>(names::timers, texts_, sql::timers, clock);
  auto& receiver = registry().add<storage::InboxStore, InboxStore>(texts_, clock, inbox.roles());
  inbox.watch(receiver);
  outbox.watch(registry().add<storage::JoinStore, JoinStore>(texts_, clock, bell(names::outbox)));
  outbox.watch(registry().add<storage::JobStore, JobStore>(texts_, clock, bell(names::jobs)));
  registry().add<storage::TimerStore, TimerStore>(texts_, clock);
  registry().add<storage::FanoutStore, FanoutStore>(texts_, clock, outbox.roles().producer);
  auto& events = registry().add<storage::EventStore, EventStore>(texts_, clock);
  registry().add<storage::WorkStore, WorkStore>(texts_, clock,
                                                WorkStore::Parts{outbox, inbox, receiver, events});
  registry().add<storage::SubscriptionStore, SubscriptionStore>(texts_, clock);
  registry().add<storage::LeaseStore, LeaseStore>(texts_, clock);
  registry().add<storage::InstanceStore, InstanceStore>(texts_, clock);
  registry().add<storage::AuditStore, AuditStore>(texts_, clock);
  registry().add<storage::ReplayStore, ReplayStore>(texts_, clock);
  registry().add<storage::RollupStore, RollupStore>(texts_, clock);
  registry().add<storage::BacklogStore, BacklogStore>(texts_, clock);
  registry().add<storage::GlanceStore, GlanceStore>(texts_, clock);
  registry().add<storage::SampleStore, SampleStore>(texts_);
  registry().add<storage::MigrationStore, MigrationStore>(texts_, options_.schema);
}

}  // namespace dovetail::sqlite
