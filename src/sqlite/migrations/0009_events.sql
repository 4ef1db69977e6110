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
