-- The outbox: a queue table that holds only what is still to be done, and an archive for what is finished. Times are
-- microseconds since 1970, ids are 16-byte blobs.
--
-- Rows are kept by an integer key that only grows: SQLite appends those to the last page, where a table ordered by the
-- blob would split pages and write half as many again for every commit.

-- A row is in progress while it has a lease. `lane` is the priority, or -100 while the topic is paused: such rows lie where
-- no claim passes by.
create table {schema}_outbox (
  seq            integer primary key,
  id             blob    not null unique check (length(id) = 16),
  lane           integer not null default 0,
  ready_at       integer not null,              -- not claimed before; the order of claims
  lease_until    integer,
  owner_token    blob,
  claim_epoch    integer not null default 0,
  attempts       integer not null default 0,
  past_attempts  integer not null default 0,    -- before the last replay
  lost_leases    integer not null default 0,    -- times its lease ran out since it last ended well
  priority       integer not null default 0,
  created_at     integer not null,
  due_at         integer,
  expires_at     integer,
  topic          text    not null check (length(topic) between 1 and 255),
  correlation_id text    check (length(correlation_id) between 1 and 255),
  unique_key     text    check (length(unique_key) between 1 and 255),
  headers        text,
  last_error     text,
  payload        text    not null,
  check ((owner_token is null) = (lease_until is null)),
  check (priority between -5 and 5 and (lane = priority or lane = -100))
) strict;

create index {schema}_outbox_queue  on {schema}_outbox (lane, ready_at) where lease_until is null;
create index {schema}_outbox_leased on {schema}_outbox (lease_until) where lease_until is not null;
create unique index {schema}_outbox_unique_key on {schema}_outbox (unique_key) where unique_key is not null;
create index {schema}_outbox_parked on {schema}_outbox (topic) where lane = -100;

-- What is finished: done (2) or failed (3, the dead letters).
create table {schema}_outbox_archive (
  seq            integer primary key,
  id             blob    not null unique,
  status         integer not null check (status in (2, 3)),
  processed_at   integer not null,
  processed_by   blob,
  claim_epoch    integer not null,
  attempts       integer not null,
  past_attempts  integer not null,
  priority       integer not null,
  created_at     integer not null,
  due_at         integer,
  expires_at     integer,
  topic          text    not null,
  correlation_id text,
  unique_key     text,
  headers        text,
  last_error     text,
  payload        text    not null
) strict;

create index {schema}_outbox_archive_done   on {schema}_outbox_archive (processed_at) where status = 2;
create index {schema}_outbox_archive_failed on {schema}_outbox_archive (id) where status = 3;

create table {schema}_outbox_paused (
  topic     text    not null primary key,
  paused_at integer not null
) strict, without rowid;

-- Every message that is stored, with the columns of the specification.
create view {schema}_outbox_messages as
  select id, topic, payload, created_at, case when lease_until is null then 0 else 1 end as status,
         lease_until as locked_until, owner_token, 0 as is_processed, null as processed_at, null as processed_by,
         attempts as retry_count, last_error, ready_at as next_attempt_at, id as message_id, correlation_id,
         due_at as due_time_utc, expires_at, priority, unique_key, headers, claim_epoch, past_attempts
    from {schema}_outbox
  union all
  select id, topic, payload, created_at, status, null, null, status = 2, processed_at, processed_by, attempts, last_error,
         null, id, correlation_id, due_at, expires_at, priority, unique_key, headers, claim_epoch, past_attempts
    from {schema}_outbox_archive;
