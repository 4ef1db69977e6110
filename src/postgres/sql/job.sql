-- Cron jobs and their runs.

-- name: job_now
select {schema}.clock();

-- name: job_lock
-- returns: as job_find
select id, name, topic::text, payload, cron, time_zone, misfire, misfire_limit, enabled,
       max_concurrent_runs, (extract(epoch from jitter) * 1000)::bigint as jitter, created_at,
       updated_at, next_due_at, null::timestamptz as last_run_at, null::text as last_run_status,
       last_error
  from {schema}.job where name = $1::text
   for no key update;

-- name: job_lock_due
-- returns: as job_find
select id, name, topic::text, payload, cron, time_zone, misfire, misfire_limit, enabled,
       max_concurrent_runs, (extract(epoch from jitter) * 1000)::bigint as jitter, created_at,
       updated_at, next_due_at, null::timestamptz as last_run_at, null::text as last_run_status,
       last_error
  from {schema}.job where wake_at <= (select {schema}.clock())
 order by wake_at limit $1::integer
   for no key update skip locked;

-- name: job_insert
insert into {schema}.job (id, name, topic, payload, cron, time_zone, misfire, misfire_limit,
                          enabled, max_concurrent_runs, jitter, created_at, updated_at, next_due_at,
                          wake_at)
values ($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::integer, $8::integer,
        $9::boolean, $10::integer, $11::bigint * interval '1 millisecond', {schema}.clock(),
        {schema}.clock(), $12::timestamptz, $12::timestamptz)
on conflict do nothing;

-- name: job_update
with renamed as (
  update {schema}.job_run set job_name = $2::text where job_id = $1::uuid and job_name <> $2::text
)
update {schema}.job
   set name = $2::text, topic = $3::text, payload = $4::text, cron = $5::text, time_zone = $6::text,
       misfire = $7::integer, misfire_limit = $8::integer, enabled = $9::boolean,
       max_concurrent_runs = $10::integer, jitter = $11::bigint * interval '1 millisecond',
       updated_at = {schema}.clock(), next_due_at = $12::timestamptz, last_error = null
 where id = $1::uuid;

-- name: job_plan
update {schema}.job set next_due_at = $2::timestamptz, wake_at = $3::timestamptz, last_error = null
  where id = $1::uuid;

-- name: job_note_broken
update {schema}.job
   set last_error = left($2::text, 2048), wake_at = coalesce($3::timestamptz, wake_at)
 where id = $1::uuid;

-- name: job_remove
select {schema}._job_remove($1::uuid);

-- name: job_drop_waiting
delete from {schema}.job_run
 where job_id = $1::uuid and released_at is null and not triggered
   and ($2::timestamptz is null or scheduled_time < $2)
returning scheduled_time;

-- name: job_add_run
insert into {schema}.job_run (id, job_id, job_name, scheduled_time, triggered, created_at)
values ($1::uuid, $2::uuid, $3::text, $4::timestamptz, $5::boolean, {schema}.clock())
on conflict do nothing;

-- name: job_counts
-- returns: active integer, waiting integer, triggered integer
select (select count(*) from {schema}.job_run
         where job_id = $1::uuid and released_at is not null and ended_at is null) as active,
       (select count(*) from {schema}.job_run
         where job_id = $1::uuid and released_at is null) as waiting,
       (select count(*) from {schema}.job_run
         where job_id = $1::uuid and released_at is null and triggered) as triggered;

-- name: job_waiting
-- returns: id uuid, scheduled_time time, triggered boolean
select id, scheduled_time, triggered from {schema}.job_run
 where job_id = $1::uuid and released_at is null order by scheduled_time limit $2::integer;

-- name: job_release
update {schema}.job_run set released_at = {schema}.clock() where id = $1::uuid;

-- name: job_note_started
update {schema}.job_run set started_at = {schema}.clock() where id = $1::uuid and ended_at is null;

-- name: job_set_output
update {schema}.job_run set output = $2::text where id = $1::uuid;

-- name: job_purge_runs
delete from {schema}.job_run r
 where r.ctid = any (array(select p.ctid from {schema}.job_run p
                            where p.ended_at < (select {schema}.clock())
                                               - $1::bigint * interval '1 microsecond'
                            order by p.ended_at limit $2::integer for update skip locked));

-- name: job_find
-- returns: id uuid, name text, topic text, payload text, cron text, time_zone text, misfire integer
-- returns: misfire_limit integer, enabled boolean, max_concurrent_runs integer, jitter integer
-- returns: created_at time
-- returns: updated_at time, next_due_at time, last_run_at time, last_run_status text
-- returns: last_error text
select j.id, j.name, j.topic, j.payload, j.cron, j.time_zone, r.misfire, j.misfire_limit, j.enabled,
       j.max_concurrent_runs, (extract(epoch from j.jitter) * 1000)::bigint as jitter, j.created_at,
       j.updated_at, j.next_due_at, j.last_run_at, j.last_run_status, j.last_error
  from {schema}.jobs j join {schema}.job r on r.id = j.id where j.name = $1::text;

-- name: job_list
-- returns: as job_find
select j.id, j.name, j.topic, j.payload, j.cron, j.time_zone, r.misfire, j.misfire_limit, j.enabled,
       j.max_concurrent_runs, (extract(epoch from j.jitter) * 1000)::bigint as jitter, j.created_at,
       j.updated_at, j.next_due_at, j.last_run_at, j.last_run_status, j.last_error
  from {schema}.jobs j join {schema}.job r on r.id = j.id order by j.name;

-- name: job_runs
-- returns: id uuid, job text, scheduled_time time, status text, triggered boolean, created_at time
-- returns: started_at time, ended_at time, output text, last_error text, attempts integer
select id, job, scheduled_time, status, triggered, created_at, started_at, ended_at, output,
       last_error, attempts
  from {schema}.job_runs
 where job = $1::text and ($2::timestamptz is null or scheduled_time < $2)
 order by scheduled_time desc limit $3::bigint;
