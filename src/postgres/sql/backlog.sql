-- The backlog over time: buckets of 10 s, and of a minute later on.

-- name: backlog_is_known
-- Whether a process has stored the backlog of the current bucket.
select exists (
  select from {schema}.backlog
   where step = 10
     and bucket = to_timestamp(floor(extract(epoch from {schema}.clock()) / 10) * 10));

-- name: backlog_add
insert into {schema}.backlog as b (step, bucket, queue, ready, in_progress)
values (10, to_timestamp(floor(extract(epoch from {schema}.clock()) / 10) * 10), $1::text,
        $2::bigint, $3::bigint)
on conflict (step, bucket, queue) do update
  set ready = greatest(b.ready, excluded.ready),
      in_progress = greatest(b.in_progress, excluded.in_progress);

-- name: backlog_fold
-- Folds the oldest minute of 10 s buckets that are older than $1 microseconds. A second process
-- waits for the rows that the first one deletes, and then finds none of them.
with first as (
  select date_trunc('minute', min(bucket)) as minute from {schema}.backlog
   where step = 10 and bucket < date_trunc('minute', {schema}.clock()
                                                     - $1::bigint * interval '1 microsecond')),
old as (
  delete from {schema}.backlog b using first
   where b.step = 10 and b.bucket >= first.minute
     and b.bucket < first.minute + interval '1 minute'
  returning b.*, first.minute),
folded as (
  insert into {schema}.backlog as b (step, bucket, queue, ready, in_progress)
  select 60, minute, queue, max(ready), max(in_progress)
    from old group by minute, queue order by minute, queue
  on conflict (step, bucket, queue) do update
    set ready = greatest(b.ready, excluded.ready),
        in_progress = greatest(b.in_progress, excluded.in_progress))
select count(*) from old;

-- name: backlog_purge
delete from {schema}.backlog b
 where b.ctid = any (array(select o.ctid from {schema}.backlog o
                            where o.step = 60
                              and o.bucket < {schema}.clock()
                                              - $1::bigint * interval '1 microsecond'
                            limit $2::integer for update skip locked));

-- name: backlog_list
-- returns: bucket time, ready integer, in_progress integer
select to_timestamp(floor(extract(epoch from bucket) / $4::bigint) * $4::bigint) as bucket,
       max(ready) as ready, max(in_progress) as in_progress
  from {schema}.backlog
 where step in (10, 60) and queue = $1::text and bucket >= $2::timestamptz
   and bucket < $3::timestamptz
 group by 1 order by 1;
