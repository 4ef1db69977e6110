-- compatible-with: 11
-- Rollups: counts of work by time, queue and topic. Times are microseconds since 1970.

-- step: the length of the bucket in seconds, 10 or 60. Times of handlers are microseconds.
create table {schema}_rollup (
  step             integer not null,
  bucket           integer not null,
  queue            text    not null,
  topic            text    not null,
  enqueued         integer not null,
  done             integer not null,
  retried          integer not null,
  failed           integer not null,
  calls            integer not null,
  handler_time     integer not null,
  handler_time_max integer not null,
  primary key (step, bucket, queue, topic)
) strict, without rowid;

-- The last flush of each process: a repeated flush counts once.
create table {schema}_rollup_source (
  source     blob    not null primary key check (length(source) = 16),
  flush      integer not null,
  flushed_at integer not null
) strict, without rowid;

-- The joins of a message that has ended.
create index {schema}_outbox_join_member_ended on {schema}_outbox_join_member (message_id)
  where status <> 0;
