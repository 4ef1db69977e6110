-- Cron jobs and their runs.

-- name: job_now
select ?1;

-- name: job_lock
-- returns: as job_find
select id, name, topic, payload, cron, time_zone, misfire, misfire_limit, enabled,
       max_concurrent_runs, jitter, created_at, updated_at, next_due_at, null as last_run_at,
       null as last_run_status, last_error
  from {schema}_job where name = ?1;

-- name: job_lock_due
-- returns: as job_find
select id, name, topic, payload, cron, time_zone, misfire, misfire_limit, enabled,
       max_concurrent_runs, jitter, created_at, updated_at, next_due_at, null as last_run_at,
       null as last_run_status, last_error
  from {schema}_job where wake_at <= ?2 order by wake_at limit ?1;

-- name: job_insert
insert into {schema}_job (id, name, topic, payload, cron, time_zone, misfire, misfire_limit,
                          enabled, max_concurrent_runs, jitter, next_due_at, wake_at, created_at,
                          updated_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?13)
on conflict do nothing;

-- name: job_update
update {schema}_job
   set name = ?2, topic = ?3, payload = ?4, cron = ?5, time_zone = ?6, misfire = ?7,
       misfire_limit = ?8, enabled = ?9, max_concurrent_runs = ?10, jitter = ?11, next_due_at = ?12,
       updated_at = ?13, last_error = null
 where id = ?1;

-- name: job_update_step_rename
update {schema}_job_run set job_name = ?2 where job_id = ?1 and job_name <> ?2;

-- name: job_plan
update {schema}_job set next_due_at = ?2, wake_at = ?3, last_error = null where id = ?1;

-- name: job_note_broken
update {schema}_job set last_error = substr(?2, 1, 2048), wake_at = coalesce(?3, wake_at)
  where id = ?1;

-- name: job_remove
delete from {schema}_job where id = ?1;

-- name: job_remove_step_messages
-- Messages that no worker has claimed.
delete from {schema}_outbox
 where status = 0 and lease_until < 0
   and id in (select id from {schema}_job_run
               where job_id = ?1 and released_at is not null and ended_at is null);

-- name: job_remove_step_runs
-- A run in progress keeps its row.
delete from {schema}_job_run
 where job_id = ?1 and ended_at is null
   and (released_at is null
        or not exists (select 1 from {schema}_outbox as o where o.id = {schema}_job_run.id));

-- name: job_drop_waiting
delete from {schema}_job_run
 where job_id = ?1 and released_at is null and not triggered and (?2 is null or scheduled_time < ?2)
returning scheduled_time;

-- name: job_add_run
insert into {schema}_job_run (id, job_id, job_name, scheduled_time, triggered, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict do nothing;

-- name: job_counts
-- returns: active integer, waiting integer, triggered integer
select (select count(*) from {schema}_job_run
         where job_id = ?1 and released_at is not null and ended_at is null) as active,
       (select count(*) from {schema}_job_run
         where job_id = ?1 and released_at is null) as waiting,
       (select count(*) from {schema}_job_run
         where job_id = ?1 and released_at is null and triggered) as triggered;

-- name: job_waiting
-- returns: id uuid, scheduled_time time, triggered boolean
select id, scheduled_time, triggered from {schema}_job_run
 where job_id = ?1 and released_at is null order by scheduled_time limit ?2;

-- name: job_release
update {schema}_job_run set released_at = ?2 where id = ?1;

-- name: job_release_step_installed
select exists (select 1 from sqlite_schema where type = 'table' and name = '{schema}_job_run');

-- name: job_release_step_any
select exists (select 1 from {schema}_job_run where released_at is not null and ended_at is null);

-- name: job_release_step_one
select 1 from {schema}_job_run where id = ?1 and released_at is not null and ended_at is null;

-- name: job_release_step_ended
update {schema}_job_run
   set ended_at = ?2, failed = ?3,
       last_error = (select o.last_error from {schema}_outbox as o where o.id = ?1)
 where id = ?1 and ended_at is null;

-- name: job_release_step_wake
-- If a job has waiting runs, a scheduler examines it at once.
update {schema}_job set wake_at = ?2
 where id = (select job_id from {schema}_job_run where id = ?1)
   and exists (select 1 from {schema}_job_run as w
                where w.job_id = {schema}_job.id and w.released_at is null);

-- name: job_release_step_replayed
update {schema}_job_run set ended_at = null, failed = 0 where id = ?1;

-- name: job_note_started
update {schema}_job_run set started_at = ?2 where id = ?1 and ended_at is null;

-- name: job_set_output
update {schema}_job_run set output = ?2 where id = ?1;

-- name: job_purge_runs
delete from {schema}_job_run
 where rowid in (select rowid from {schema}_job_run where ended_at < ?1 order by ended_at limit ?2);

-- name: job_find
-- returns: id uuid, name text, topic text, payload text, cron text, time_zone text, misfire integer
-- returns: misfire_limit integer, enabled boolean, max_concurrent_runs integer, jitter integer
-- returns: created_at time
-- returns: updated_at time, next_due_at time, last_run_at time, last_run_status text
-- returns: last_error text
select j.id, j.name, j.topic, j.payload, j.cron, j.time_zone, r.misfire, j.misfire_limit, j.enabled,
       j.max_concurrent_runs, j.jitter, j.created_at, j.updated_at, j.next_due_at, j.last_run_at,
       j.last_run_status, j.last_error
  from {schema}_jobs as j join {schema}_job as r on r.id = j.id where j.name = ?1;

-- name: job_list
-- returns: as job_find
select j.id, j.name, j.topic, j.payload, j.cron, j.time_zone, r.misfire, j.misfire_limit, j.enabled,
       j.max_concurrent_runs, j.jitter, j.created_at, j.updated_at, j.next_due_at, j.last_run_at,
       j.last_run_status, j.last_error
  from {schema}_jobs as j join {schema}_job as r on r.id = j.id order by j.name;

-- name: job_runs
-- returns: id uuid, job text, scheduled_time time, status text, triggered boolean, created_at time
-- returns: started_at time, ended_at time, output text, last_error text, attempts integer
select id, job, scheduled_time, status, triggered, created_at, started_at, ended_at, output,
       last_error, attempts
  from {schema}_job_runs
 where job = ?1 and (?2 is null or scheduled_time < ?2)
 order by scheduled_time desc limit ?3;
