-- compatible-with: 8
-- The event store: streams of events with versions. Times are microseconds since 1970.

-- A stream that was closed without events has version 0.
create table {schema}_event_stream (
  no            integer primary key,
  key           text    not null unique check (length(key) between 1 and 255),
  version       integer not null,           -- of the last event
  first_version integer not null,           -- events before it were deleted
  created_at    integer not null,
  closed_at     integer,                    -- accepts no more events
  deleted_at    integer                     -- its events were deleted; the key stays used
) strict;

-- The number of an event is its position in the order of all events. SQLite has one writer, so the
-- numbers are given in the order of the commits, and a rollback takes them back: there are no gaps.
-- With AUTOINCREMENT, the number of a deleted event is not given again. The key of the stream is
-- stored again, so that the feed is read without a join.
create table {schema}_event (
  no             integer primary key autoincrement,
  stream         integer not null,          -- the number of the stream
  version        integer not null,
  at             integer not null,
  id             blob    not null unique check (length(id) = 16),
  key            text    not null,
  type           text    not null check (length(type) between 1 and 255),
  data           text    not null,
  metadata       text,
  correlation_id text,
  causation_id   text,
  unique (stream, version)
) strict;

create table {schema}_event_snapshot (
  stream  integer not null,
  name    text    not null check (length(name) between 1 and 255),
  version integer not null,
  schema  integer not null,
  at      integer not null,
  data    text    not null,
  primary key (stream, name)
) strict, without rowid;

-- Subscriptions: readers of the feed with a name. The streams are distributed over the parts, by
-- their numbers. The position of a part moves in the transaction of its handler, if epoch and
-- position are those that the handler began with.
create table {schema}_event_subscription (
  name       text    primary key check (length(name) between 1 and 255),
  parts      integer not null check (parts between 1 and 256),
  next_parts integer,                       -- wanted; the parts first drain to drain_to
  drain_to   integer,
  changes    integer not null default 0,    -- by operators; owners lease their parts again
  types      text,                          -- JSON arrays; null: all
  prefixes   text,
  on_failure text    not null,              -- for operators; the handler's process decides
  created_at integer not null,
  paused_at  integer
) strict, without rowid;

create table {schema}_event_subscription_part (
  name        text    not null,
  part        integer not null,
  position    integer not null,             -- events up to it were handled
  epoch       integer not null,             -- increases with each lease
  owner_token blob,
  lease_until integer,
  attempts    integer not null,             -- failed calls since the position has moved
  retry_at    integer,                      -- after a failure
  stopped_at  integer,                      -- a failure has stopped it until resume
  last_error  text,
  moved_at    integer not null,
  primary key (name, part)
) strict, without rowid;

-- Events that a subscription does not handle for now. kind: 'event': this event has failed.
-- 'stream': this event has failed, and the later events of its stream wait. 'skipped': an operator
-- has skipped this event.
create table {schema}_event_parked (
  name       text    not null,
  position   integer not null,
  stream     text    not null,
  stream_no  integer not null,
  version    integer not null,
  kind       text    not null check (kind in ('event', 'stream', 'skipped')),
  attempts   integer not null,
  error      text    not null,
  parked_at  integer not null,
  resumed_at integer,                       -- to be handled again
  primary key (name, position)
) strict, without rowid;
