-- compatible-with: 11
-- Rollups: counts of work by time, queue and topic. The tables are private; the view is the
-- contract.

-- step: the length of the bucket in seconds, 10 or 60. Times of handlers are microseconds.
create table {schema}.rollup (
  step             integer     not null,
  bucket           timestamptz not null,
  queue            text        not null,
  topic            text        not null,
  enqueued         bigint      not null,
  done             bigint      not null,
  retried          bigint      not null,
  failed           bigint      not null,
  calls            bigint      not null,
  handler_time     bigint      not null,
  handler_time_max bigint      not null,
  constraint rollup_pkey primary key (step, bucket, queue, topic)
) with (fillfactor = 70);

-- The last flush of each process: a repeated flush counts once.
create table {schema}.rollup_source (
  source     uuid        not null,
  flush      bigint      not null,
  flushed_at timestamptz not null,
  constraint rollup_source_pkey primary key (source)
) with (fillfactor = 50);

create view {schema}.rollups as
  select bucket, step * interval '1 second' as step, queue, topic, enqueued, done, retried, failed,
         calls, handler_time * interval '1 microsecond' as handler_time,
         handler_time_max * interval '1 microsecond' as handler_time_max
    from {schema}.rollup;
comment on view {schema}.rollups is
  'Counts of work by time, queue and topic: 10 s buckets for an hour, minutes for a week.';
