-- A queue, for the migrations that include this template. After its release a template never
-- changes: later changes are migrations of their own.

-- A row of the queue is in progress while its lease_until is a time (positive). The columns that a
-- claim and an ack change have the same size before and after, so SQLite overwrites them in place.
-- That is why large negative numbers mean "never", an owner of zeros means "nobody", and done is 1.
-- The view {schema}_{queue}_messages shows the values of the specification.
--
-- lane: the priority of the message, or -100 if its topic was paused when a claim found it. No
-- claim looks at the lane -100. No index has a column that a claim changes, so claims write no
-- index.
create table {schema}_{queue} (
  seq            integer primary key,
  id             blob    not null unique check (length(id) = 16),
  -- status: queued, done, failed
  status         integer not null default 0 check (status between 0 and 3 and status <> 2),
  lane           integer not null default 0,
  ready_at       integer not null,              -- not claimed before this time
  lease_until    integer not null default -9000000000000000000,
  -- owner_token: the owner of the lease, and at the end the owner that finished the message
  owner_token    blob    not null default x'00000000000000000000000000000000',
  claim_epoch    integer not null default 0,
  attempts       integer not null default 0,
  past_attempts  integer not null default 0,    -- before the last replay
  lost_leases    integer not null default 0,    -- expired leases in a row
  priority       integer not null default 0,
  created_at     integer not null,
  due_at         integer,
  expires_at     integer,
  processed_at   integer not null default -9000000000000000000,
  topic          text    not null check (length(topic) between 1 and 255),
  correlation_id text    check (length(correlation_id) between 1 and 255),
  unique_key     text    check (length(unique_key) between 1 and 255),
  headers        text,
  last_error     text,
  payload        text    not null,
  check (priority between -5 and 5 and (lane = priority or lane = -100))
) strict;

create index {schema}_{queue}_queue  on {schema}_{queue} (lane, ready_at) where status = 0;
create index {schema}_{queue}_done   on {schema}_{queue} (processed_at) where status = 1;
create index {schema}_{queue}_failed on {schema}_{queue} (id) where status = 3;
create unique index {schema}_{queue}_unique_key on {schema}_{queue} (unique_key)
  where unique_key is not null and status = 0;
create index {schema}_{queue}_parked on {schema}_{queue} (topic) where lane = -100;

create table {schema}_{queue}_paused (
  topic     text    not null primary key,
  paused_at integer not null
) strict, without rowid;

-- Every stored message, with the columns of the specification.
create view {schema}_{queue}_messages as
  select id, topic, payload, created_at,
         case status when 0 then lease_until > 0 when 1 then 2 else 3 end as status,
         case when lease_until > 0 then lease_until end as locked_until,
         case when lease_until > 0 then owner_token end as owner_token,
         status = 1 as is_processed,
         case when status > 0 then processed_at end as processed_at,
         case when status > 0 then nullif(owner_token, zeroblob(16)) end as processed_by,
         attempts as retry_count, last_error,
         case status when 0 then ready_at end as next_attempt_at, id as message_id,
         correlation_id, due_at as due_time_utc, expires_at, priority, unique_key, headers,
         claim_epoch, past_attempts
    from {schema}_{queue};
