-- Rollups: counts of work by time, queue and topic.

-- name: rollup_flush
-- Adds the rows of a flush ($3, JSON) unless the source ($1) has stored a flush of this number
-- ($2). Rows are inserted in the order of the key, so that two processes do not deadlock.
with fresh as (
  insert into {schema}.rollup_source as s (source, flush, flushed_at)
  values ($1::uuid, $2::bigint, {schema}.clock())
  on conflict (source) do update set flush = excluded.flush, flushed_at = excluded.flushed_at
   where s.flush < excluded.flush
  returning s.flushed_at),
added as (
  select to_timestamp(floor(extract(epoch from fresh.flushed_at
                                               - each.age * interval '1 microsecond') / 10) * 10)
           as bucket,
         each.*
    from fresh cross join jsonb_to_recordset($3::jsonb)
      as each (queue text, topic text, age bigint, enqueued bigint, done bigint, retried bigint,
               failed bigint, calls bigint, handler_time bigint, handler_time_max bigint)),
stored as (
  insert into {schema}.rollup as r (step, bucket, queue, topic, enqueued, done, retried, failed,
                                    calls, handler_time, handler_time_max)
  select 10, bucket, queue, topic, sum(enqueued), sum(done), sum(retried), sum(failed), sum(calls),
         sum(handler_time), max(handler_time_max)
    from added group by bucket, queue, topic order by bucket, queue, topic
  on conflict (step, bucket, queue, topic) do update
    set enqueued = r.enqueued + excluded.enqueued, done = r.done + excluded.done,
        retried = r.retried + excluded.retried, failed = r.failed + excluded.failed,
        calls = r.calls + excluded.calls, handler_time = r.handler_time + excluded.handler_time,
        handler_time_max = greatest(r.handler_time_max, excluded.handler_time_max))
select count(*) from fresh;

-- name: rollup_fold
-- Folds the oldest minute of 10 s buckets that are older than $1 microseconds. A second process
-- waits for the rows that the first one deletes, and then finds none of them.
with first as (
  select date_trunc('minute', min(bucket)) as minute from {schema}.rollup
   where step = 10 and bucket < date_trunc('minute', {schema}.clock()
                                                     - $1::bigint * interval '1 microsecond')),
old as (
  delete from {schema}.rollup r using first
   where r.step = 10 and r.bucket >= first.minute
     and r.bucket < first.minute + interval '1 minute'
  returning r.*, first.minute),
folded as (
  insert into {schema}.rollup as r (step, bucket, queue, topic, enqueued, done, retried, failed,
                                    calls, handler_time, handler_time_max)
  select 60, minute, queue, topic, sum(enqueued), sum(done), sum(retried), sum(failed), sum(calls),
         sum(handler_time), max(handler_time_max)
    from old group by minute, queue, topic order by minute, queue, topic
  on conflict (step, bucket, queue, topic) do update
    set enqueued = r.enqueued + excluded.enqueued, done = r.done + excluded.done,
        retried = r.retried + excluded.retried, failed = r.failed + excluded.failed,
        calls = r.calls + excluded.calls, handler_time = r.handler_time + excluded.handler_time,
        handler_time_max = greatest(r.handler_time_max, excluded.handler_time_max))
select count(*) from old;

-- name: rollup_purge
delete from {schema}.rollup r
 where r.ctid = any (array(select o.ctid from {schema}.rollup o
                            where o.step = 60
                              and o.bucket < {schema}.clock()
                                              - $1::bigint * interval '1 microsecond'
                            limit $2::integer for update skip locked));

-- name: rollup_purge_sources
-- A process that has not flushed for that long ($1) does not repeat an old flush.
delete from {schema}.rollup_source s
 where s.ctid = any (array(select o.ctid from {schema}.rollup_source o
                            where o.flushed_at < {schema}.clock()
                                                  - $1::bigint * interval '1 microsecond'
                            limit $2::integer for update skip locked));

-- name: rollup_list
-- returns: bucket time, topic text, enqueued integer, done integer, retried integer
-- returns: failed integer, calls integer, handler_time integer, handler_time_max integer
select to_timestamp(floor(extract(epoch from bucket) / $6::bigint) * $6::bigint) as bucket,
       case when $3::boolean then topic else '' end as topic, sum(enqueued)::bigint as enqueued,
       sum(done)::bigint as done, sum(retried)::bigint as retried, sum(failed)::bigint as failed,
       sum(calls)::bigint as calls, sum(handler_time)::bigint as handler_time,
       max(handler_time_max) as handler_time_max
  from {schema}.rollup
 where step in (10, 60) and queue = $1::text and ($2::text = '' or topic = $2::text)
   and bucket >= $4::timestamptz and bucket < $5::timestamptz
 group by 1, 2 order by 1, 2;
