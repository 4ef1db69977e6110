-- compatible-with: 10
-- The audit of what operators change, and replays: work on dead letters in the background. Times
-- are microseconds since 1970.

-- Rows are never changed. count: the number of things that were changed, if it is known.
create table {schema}_audit (
  id     integer primary key,
  at     integer not null,
  count  integer,
  actor  text    not null,
  action text    not null,
  target text    not null,
  detail text    not null,
  result text    not null
) strict;
create index {schema}_audit_at on {schema}_audit (at);

-- A replay belongs to a process, which updates `updated_at` at least every few seconds. A row that
-- still says `running` a minute later is interrupted.
create table {schema}_replay (
  id            blob    not null primary key check (length(id) = 16),
  kind          text    not null check (kind in ('replay', 'purge')),
  state         text    not null default 'running'
                check (state in ('running', 'done', 'cancelled', 'failed', 'interrupted')),
  started_at    integer not null,
  updated_at    integer not null,
  finished_at   integer,
  examined      integer not null default 0,
  changed       integer not null default 0,
  queue         text    not null,
  actor         text    not null,
  failed_after  integer,
  failed_before integer,
  most          integer,
  rate          integer,
  topic         text,
  error         text,
  failure       text
) strict, without rowid;
