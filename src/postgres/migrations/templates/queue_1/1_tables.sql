-- The tables and functions of a queue, for the migrations that include this template. After its
-- release a template never changes: later changes are migrations of their own.

-- The queue. A row is in progress while it has a lease. No index has a column that a claim or a
-- renewal changes, so both are HOT updates and write no index. Half of each page stays free for the
-- second version of its rows. Columns that are never null come first: behind a null, PostgreSQL has
-- to walk through a row to find a column.
--
-- lane: the priority of the message, or -100 if its topic was paused when a claim found it. No
-- claim looks at the lane -100. A message of a stream has the lane priority + 20 if it is a ticket,
-- -102 if it blocks its stream, and null otherwise.
create table {schema}.{queue} (
  ready_at       timestamptz not null default {schema}.clock(),   -- not claimed before this time
  created_at     timestamptz not null default {schema}.clock(),
  claim_epoch    bigint      not null default 0,
  attempts       integer     not null default 0,
  past_attempts  integer     not null default 0,                  -- before the last replay
  lost_leases    smallint    not null default 0,                  -- expired leases in a row
  stages         smallint    not null default 1,                  -- bits; see 5_stages.sql
  lane           smallint    default 0,
  priority       {schema}.queue_priority not null default 0,
  id             uuid        not null,
  topic          {schema}.queue_name not null,
  lease_until    timestamptz,
  due_at         {schema}.queue_time,
  expires_at     {schema}.queue_time,
  owner_token    uuid,                                            -- null without a lease
  correlation_id {schema}.queue_name,
  unique_key     {schema}.queue_name,
  seq            bigint,                                          -- the order in the stream
  stream         {schema}.queue_stream,
  headers        {schema}.queue_headers,
  last_error     text,
  failures       jsonb,                                           -- see _queue_failed
  payload        text        not null,
  constraint {queue}_pkey primary key (id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

-- The condition also keeps the planner from using this index for statements that search by id
-- only. Without it, the planner finds the index cheap while the table is nearly empty, and keeps
-- that plan.
create index {queue}_queue on {schema}.{queue} (lane, ready_at, id) where lane is not null;
create unique index {queue}_unique on {schema}.{queue} (unique_key) where unique_key is not null;
create index {queue}_parked on {schema}.{queue} (topic, id) where lane = -100;
create index {queue}_by_stream on {schema}.{queue} (stream, seq) where stream is not null;

-- The finished messages: done (status 2), or failed (status 3, the dead letters).
create table {schema}.{queue}_archive (
  processed_at   timestamptz not null,
  created_at     timestamptz not null,
  claim_epoch    bigint      not null,
  due_at         timestamptz,
  expires_at     timestamptz,
  attempts       integer     not null,
  past_attempts  integer     not null,
  status         smallint    not null,
  stages         smallint    not null default 1,
  priority       smallint    not null,
  id             uuid        not null,
  processed_by   uuid,
  topic          text        not null,
  correlation_id text,
  unique_key     text,
  stream         text collate "C",
  headers        jsonb,
  last_error     text,
  failures       jsonb,
  payload        text        not null,
  constraint {queue}_archive_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2,
        autovacuum_vacuum_cost_delay = 0);

create index {queue}_archive_done on {schema}.{queue}_archive (processed_at) where status = 2;
create index {queue}_archive_failed on {schema}.{queue}_archive (id) where status = 3;

create table {schema}.{queue}_paused (
  topic     text        not null,
  paused_at timestamptz not null default {schema}.clock(),
  constraint {queue}_paused_pkey primary key (topic)
);

-- Streams that are leased or blocked; see 7_streams.sql. {queue}_seq orders messages of streams.
create sequence {schema}.{queue}_seq cache 1;
create sequence {schema}.{queue}_stream_epoch cache 1;

create table {schema}.{queue}_stream (
  epoch       bigint      not null default 0,
  run_to      bigint      not null default 0,  -- the last message of the run
  passed      bigint      not null default 0,  -- no message up to this one is left
  unsettled   integer     not null default 0,  -- messages of the run that are not settled
  lease_until timestamptz,
  owner_token uuid,                            -- null: not leased
  blocked_at  timestamptz,                     -- the first message has failed, and the stream waits
  stream      {schema}.queue_stream not null,
  constraint {queue}_stream_pkey primary key (stream)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

create index {queue}_stream_lease on {schema}.{queue}_stream (lease_until)
  where owner_token is not null;
create index {queue}_stream_blocked on {schema}.{queue}_stream (blocked_at)
  where blocked_at is not null;

-- Runs: leases of many messages; see 3_runs.sql.
create table {schema}.{queue}_run (
  run         bigint      not null,  -- the owner numbers its runs
  lease_until timestamptz not null,
  from_at     timestamptz not null,  -- it begins behind the message (from_at, from_id)
  to_at       timestamptz not null,  -- (to_at, to_id) is its last message
  lane        smallint    not null,
  owner_token uuid        not null,
  from_id     uuid        not null,
  to_id       uuid        not null,
  constraint {queue}_run_pkey primary key (owner_token, run)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

create index {queue}_run_place on {schema}.{queue}_run (lane, to_at, to_id);

-- Every stored message, with the columns of the specification.
create view {schema}.{queue}_messages as
  select q.id, q.topic, q.payload, q.created_at,
         (case when coalesce(q.lease_until, s.lease_until, r.lease_until) is null
               then 0 else 1 end)::smallint as status,
         coalesce(q.lease_until, s.lease_until, r.lease_until) as locked_until,
         coalesce(q.owner_token, s.owner_token, r.owner_token) as owner_token,
         false as is_processed,
         null::timestamptz as processed_at, null::uuid as processed_by, q.attempts as retry_count,
         q.last_error, q.ready_at as next_attempt_at, q.id as message_id, q.correlation_id,
         q.due_at as due_time_utc, q.expires_at, q.priority, q.unique_key, q.headers,
         coalesce(s.epoch, r.epoch, q.claim_epoch) as claim_epoch, q.past_attempts,
         q.stream::text as stream, q.stages, q.failures
    from {schema}.{queue} q
    left join {schema}.{queue}_stream s
           on s.stream = q.stream and s.owner_token is not null and q.seq <= s.run_to
    left join lateral (select u.lease_until, u.owner_token, 1::bigint as epoch
                         from {schema}.{queue}_run u
                        where u.lane = q.lane and q.claim_epoch = 0 and q.lease_until is null
                          and (q.ready_at, q.id) > (u.from_at, u.from_id)
                          and (q.ready_at, q.id) <= (u.to_at, u.to_id)
                        limit 1) r on true
  union all
  select id, topic, payload, created_at, status, null, null, status = 2, processed_at, processed_by,
         attempts, last_error, null, id, correlation_id, due_at, expires_at, priority, unique_key,
         headers, claim_epoch, past_attempts, stream, stages, failures
    from {schema}.{queue}_archive;
comment on view {schema}.{queue}_messages is
  'Every message of the queue {queue}: waiting, in progress, done (if kept) and failed.';
