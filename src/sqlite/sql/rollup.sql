-- Rollups: counts of work by time, queue and topic. Times are microseconds since 1970. The store
-- binds the current time.

-- name: rollup_flush_step_begin
-- Changes no row if the source (?1) has stored a flush of this number (?2).
insert into {schema}_rollup_source (source, flush, flushed_at) values (?1, ?2, ?3)
on conflict (source) do update set flush = excluded.flush, flushed_at = excluded.flushed_at
 where flush < excluded.flush;

-- name: rollup_flush
-- Adds the rows of a flush (?1, JSON) at the time ?2.
insert into {schema}_rollup (step, bucket, queue, topic, enqueued, done, retried, failed, calls,
                             handler_time, handler_time_max)
select 10, (?2 - (value ->> 'age')) / 10000000 * 10000000, value ->> 'queue', value ->> 'topic',
       sum(value ->> 'enqueued'), sum(value ->> 'done'), sum(value ->> 'retried'),
       sum(value ->> 'failed'), sum(value ->> 'calls'), sum(value ->> 'handler_time'),
       max(value ->> 'handler_time_max')
  from json_each(?1) where true group by 2, 3, 4
on conflict (step, bucket, queue, topic) do update
  set enqueued = enqueued + excluded.enqueued, done = done + excluded.done,
      retried = retried + excluded.retried, failed = failed + excluded.failed,
      calls = calls + excluded.calls, handler_time = handler_time + excluded.handler_time,
      handler_time_max = max(handler_time_max, excluded.handler_time_max);

-- name: rollup_fold_step_oldest
-- The minute of the oldest 10 s bucket before ?1; null: there is none.
select min(bucket) / 60000000 * 60000000 from {schema}_rollup where step = 10 and bucket < ?1;

-- name: rollup_fold
-- Adds the 10 s buckets of the minute ?1 to the bucket of the minute.
insert into {schema}_rollup (step, bucket, queue, topic, enqueued, done, retried, failed, calls,
                             handler_time, handler_time_max)
select 60, ?1, queue, topic, sum(enqueued), sum(done), sum(retried), sum(failed), sum(calls),
       sum(handler_time), max(handler_time_max)
  from {schema}_rollup where step = 10 and bucket >= ?1 and bucket < ?1 + 60000000
 group by queue, topic
on conflict (step, bucket, queue, topic) do update
  set enqueued = enqueued + excluded.enqueued, done = done + excluded.done,
      retried = retried + excluded.retried, failed = failed + excluded.failed,
      calls = calls + excluded.calls, handler_time = handler_time + excluded.handler_time,
      handler_time_max = max(handler_time_max, excluded.handler_time_max);

-- name: rollup_fold_step_delete
delete from {schema}_rollup where step = 10 and bucket >= ?1 and bucket < ?1 + 60000000;

-- name: rollup_purge
delete from {schema}_rollup
 where (step, bucket, queue, topic) in (select step, bucket, queue, topic from {schema}_rollup
                                         where step = 60 and bucket < ?1 limit ?2);

-- name: rollup_purge_sources
-- A process that has not flushed for that long does not repeat an old flush.
delete from {schema}_rollup_source
 where source in (select source from {schema}_rollup_source where flushed_at < ?1 limit ?2);

-- name: rollup_list
-- returns: bucket time, topic text, enqueued integer, done integer, retried integer
-- returns: failed integer, calls integer, handler_time integer, handler_time_max integer
select bucket / ?6 * ?6 as bucket, case when ?3 then topic else '' end as topic,
       sum(enqueued) as enqueued, sum(done) as done, sum(retried) as retried,
       sum(failed) as failed, sum(calls) as calls, sum(handler_time) as handler_time,
       max(handler_time_max) as handler_time_max
  from {schema}_rollup
 where step in (10, 60) and queue = ?1 and (?2 = '' or topic = ?2) and bucket >= ?4 and bucket < ?5
 group by 1, 2 order by 1, 2;
