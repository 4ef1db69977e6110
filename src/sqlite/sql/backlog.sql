-- The backlog over time: buckets of 10 s, and of a minute later on. Times are microseconds since
-- 1970. The store binds the current time.

-- name: backlog_is_known
-- Whether a process has stored the backlog of the current bucket.
select exists (select 1 from {schema}_backlog
                where step = 10 and bucket = ?1 / 10000000 * 10000000);

-- name: backlog_add
insert into {schema}_backlog (step, bucket, queue, ready, in_progress)
values (10, ?4 / 10000000 * 10000000, ?1, ?2, ?3)
on conflict (step, bucket, queue) do update
  set ready = max(ready, excluded.ready), in_progress = max(in_progress, excluded.in_progress);

-- name: backlog_fold_step_oldest
-- The minute of the oldest 10 s bucket before ?1; null: there is none.
select min(bucket) / 60000000 * 60000000 from {schema}_backlog where step = 10 and bucket < ?1;

-- name: backlog_fold
-- Adds the 10 s buckets of the minute ?1 to the bucket of the minute.
insert into {schema}_backlog (step, bucket, queue, ready, in_progress)
select 60, ?1, queue, max(ready), max(in_progress)
  from {schema}_backlog where step = 10 and bucket >= ?1 and bucket < ?1 + 60000000
 group by queue
on conflict (step, bucket, queue) do update
  set ready = max(ready, excluded.ready), in_progress = max(in_progress, excluded.in_progress);

-- name: backlog_fold_step_delete
delete from {schema}_backlog where step = 10 and bucket >= ?1 and bucket < ?1 + 60000000;

-- name: backlog_purge
delete from {schema}_backlog
 where (step, bucket, queue) in (select step, bucket, queue from {schema}_backlog
                                  where step = 60 and bucket < ?1 limit ?2);

-- name: backlog_list
-- returns: bucket time, ready integer, in_progress integer
select bucket / ?4 * ?4 as bucket, max(ready) as ready, max(in_progress) as in_progress
  from {schema}_backlog
 where step in (10, 60) and queue = ?1 and bucket >= ?2 and bucket < ?3
 group by 1 order by 1;
