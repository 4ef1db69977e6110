-- Instances: the processes that work on this database. The table is private; the view is the
-- contract.

-- One row per process. A process updates `heartbeat_at` every 10 seconds and deletes its row when
-- it ends. handlers: for each queue, {"topics": [...], "all_topics": true or false}.
create table {schema}.instance (
  instance_id  uuid        not null,
  pid          bigint      not null,
  started_at   timestamptz not null,
  heartbeat_at timestamptz not null,
  host         text        not null,
  version      text        not null,
  state        text        not null check (state in ('running', 'draining')),
  handlers     jsonb       not null,
  constraint instance_pkey primary key (instance_id)
) with (fillfactor = 50);

-- stale: no heartbeat for 90 seconds. The process is dead, stopped, or cut off from the database.
create view {schema}.instances as
  select instance_id, host, pid, version, started_at, heartbeat_at, state,
         heartbeat_at < {schema}.clock() - interval '90 seconds' as stale,
         array(select jsonb_object_keys(handlers) order by 1) as queues, handlers
    from {schema}.instance;

comment on view {schema}.instances is
  'Processes that work on this database, with their heartbeats, queues and topics.';