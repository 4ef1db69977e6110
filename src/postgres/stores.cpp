// The stores of a PostgreSQL database.
#include "postgres/backlog_store.hpp"
#include "postgres/database.hpp"
#include "postgres/event_store.hpp"
#include "postgres/fanout_store.hpp"
#include "postgres/glance_store.hpp"
#include "postgres/inbox_store.hpp"
#include "postgres/instance_store.hpp"
#include "postgres/job_store.hpp"
#include "postgres/join_store.hpp"
#include "postgres/lease_store.hpp"
#include "postgres/migration_store.hpp"
#include "postgres/operation_store.hpp"
#include "postgres/queue_store.hpp"
#include "postgres/rollup_store.hpp"
#include "postgres/sample_store.hpp"
#include "postgres/sql.hpp"
#include "postgres/subscription_store.hpp"
#include "postgres/timer_store.hpp"
#include "postgres/work_store.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::postgres {

// To add a component with a store, add its line here.
void Database::register_stores() {
  registry().add_queue<QueueStore>(storage::queue_names::outbox, texts_, sql::outbox);
  registry().add_queue<QueueStore>(storage::queue_names::inbox, texts_, sql::inbox);
  registry().add_queue<QueueStore>(storage::queue_names::timers, texts_, sql::timers);
  registry().add<storage::InboxStore, InboxStore>(texts_);
  registry().add<storage::TimerStore, TimerStore>(texts_);
  registry().add<storage::JobStore, JobStore>(texts_);
  registry().add<storage::FanoutStore, FanoutStore>(texts_);
  registry().add<storage::EventStore, EventStore>(texts_);
  registry().add<storage::SubscriptionStore, SubscriptionStore>(texts_);
  registry().add<storage::JoinStore, JoinStore>(texts_);
  registry().add<storage::LeaseStore, LeaseStore>(texts_);
  registry().add<storage::InstanceStore, InstanceStore>(texts_);
  registry().add<storage::WorkStore, WorkStore>(texts_);
  registry().add<storage::AuditStore, AuditStore>(texts_);
  registry().add<storage::ReplayStore, ReplayStore>(texts_);
  registry().add<storage::RollupStore, RollupStore>(texts_);
  registry().add<storage::BacklogStore, BacklogStore>(texts_);
  registry().add<storage::GlanceStore, GlanceStore>(texts_);
  registry().add<storage::SampleStore, SampleStore>(texts_);
  const auto quoted = '"' + options_.schema + '"';  // the name has been checked
  registry().add<storage::MigrationStore, MigrationStore>(texts_, quoted);
}

}  // namespace dovetail::postgres
