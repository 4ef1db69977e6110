-- Cron jobs and their runs. The calendar is the library's: it says when a job is due next (next_due_at), and looks at it again
-- at wake_at. A run's message in the outbox has the run's id.

create table {schema}.job (
  id                  uuid not null,
  name                text collate "C" not null,
  topic               {schema}.queue_name not null,
  payload             text not null,
  cron                text not null,
  time_zone           text not null,
  misfire             smallint not null,               -- coalesce, all, skip
  misfire_limit       integer not null,
  enabled             boolean not null,
  max_concurrent_runs integer not null,
  jitter              interval not null,
  created_at          timestamptz not null,
  updated_at          timestamptz not null,
  next_due_at         timestamptz,
  wake_at             timestamptz,
  last_error          text,                            -- why no scheduler could plan it
  constraint job_pkey primary key (id),
  constraint job_name unique (name),
  constraint job_limits check (char_length(name) between 1 and 100 and misfire between 0 and 2 and misfire_limit > 0
                               and max_concurrent_runs >= 0)
);

create index job_wake on {schema}.job (wake_at) where wake_at is not null;

create table {schema}.job_run (
  id             uuid not null,
  job_id         uuid not null,
  job_name       text collate "C" not null,
  scheduled_time timestamptz not null,
  triggered      boolean not null,
  created_at     timestamptz not null,
  released_at    timestamptz,                          -- its message is in the outbox since
  started_at     timestamptz,
  ended_at       timestamptz,
  failed         boolean not null default false,
  output         text,
  last_error     text,
  constraint job_run_pkey primary key (id),
  constraint job_run_once unique (job_id, scheduled_time)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05);

create index job_run_waiting on {schema}.job_run (job_id, scheduled_time) where released_at is null;
create index job_run_active on {schema}.job_run (job_id) where released_at is not null and ended_at is null;
create index job_run_ended on {schema}.job_run (ended_at) where ended_at is not null;
create index job_run_name on {schema}.job_run (job_name, scheduled_time);

-- The last run is the latest that has ended, or that has failed at least once and is retried: a job that always fails shows
-- that before its message is a dead letter.
create view {schema}.jobs as
  select j.id, j.name, j.topic::text, j.payload, j.cron, j.time_zone,
         (array['coalesce', 'all', 'skip'])[j.misfire + 1] as misfire, j.misfire_limit, j.enabled, j.max_concurrent_runs,
         j.jitter, j.created_at, j.updated_at, j.next_due_at, last.scheduled_time as last_run_at,
         case when last.failed then 'failed' when last.scheduled_time is not null then 'done' end as last_run_status,
         j.last_error
    from {schema}.job j
    left join lateral (select r.scheduled_time, r.failed or r.ended_at is null as failed from {schema}.job_run r
                        where r.job_name = j.name
                          and (r.ended_at is not null or exists (
                                 select from {schema}.outbox o where o.id = r.id and o.attempts > 0))
                        order by r.scheduled_time desc limit 1) last on true;

-- A run is in progress while somebody has claimed its message.
create view {schema}.job_runs as
  select r.id, r.job_name as job, r.scheduled_time,
         case when r.failed then 'failed' when r.ended_at is not null then 'done'
              when o.lease_until is not null then 'in_progress' else 'ready' end as status,
         r.triggered, r.created_at, r.started_at, r.ended_at, r.output, coalesce(o.last_error, r.last_error) as last_error,
         coalesce(o.attempts, a.attempts, 0) as attempts
    from {schema}.job_run r
    left join {schema}.outbox o on o.id = r.id
    left join {schema}.outbox_archive a on a.id = r.id;

-- Runs whose messages have ended. A job that has runs waiting is looked at again at once. The jobs are locked first, and then
-- looked at by statements of their own: whoever adds a run that waits holds the job, and sees this end, or is seen here.
create function {schema}._job_run_ended(ids uuid[], outcome integer) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_jobs uuid[] := array(select distinct r.job_id from {schema}.job_run r where r.id = any (ids) and r.ended_at is null);
begin
  if v_jobs = '{}' then
    return;
  end if;
  perform from {schema}.job j where j.id = any (v_jobs) order by j.id for no key update;
  perform from {schema}.job_run r where r.id = any (ids) order by r.id for no key update;
  update {schema}.job_run r
     set ended_at = {schema}.clock(), failed = (outcome = 2),
         last_error = (select a.last_error from {schema}.outbox_archive a where a.id = r.id)
   where r.id = any (ids) and r.ended_at is null;
  update {schema}.job j set wake_at = {schema}.clock()
   where j.id = any (v_jobs)
     and exists (select from {schema}.job_run w where w.job_id = j.id and w.released_at is null);
  if found then
    perform {schema}._wake();
  end if;
end
$function$;

-- Locks what the above will touch; see _outbox_lock_ends.
create function {schema}._job_run_lock_ends(ids uuid[], wait boolean) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_jobs uuid[] := array(select distinct r.job_id from {schema}.job_run r where r.id = any (ids) and r.ended_at is null);
  v_locked uuid[];
begin
  if v_jobs = '{}' then
    return ids;
  elsif wait then
    perform from {schema}.job j where j.id = any (v_jobs) order by j.id for no key update;
    perform from {schema}.job_run r where r.id = any (ids) order by r.id for no key update;
    return ids;
  end if;
  v_locked := array(select j.id from {schema}.job j where j.id = any (v_jobs) order by j.id for no key update skip locked);
  v_locked := array(select r.id from {schema}.job_run r
                     where r.id = any (ids) and (r.job_id = any (v_locked) or not exists (
                             select from {schema}.job j where j.id = r.job_id))
                     order by r.id for no key update skip locked);
  return array(select u.id from unnest(ids) as u(id)
                where u.id = any (v_locked) or not exists (
                        select from {schema}.job_run r where r.id = u.id and r.ended_at is null));
end
$function$;

create or replace function {schema}._outbox_lock_ends(ids uuid[], wait boolean) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_ids uuid[] := {schema}._outbox_join_lock_ends(ids, wait);
begin
  if to_regclass('{schema}.job_run') is null or v_ids = '{}' then
    return v_ids;
  end if;
  return {schema}._job_run_lock_ends(v_ids, wait);
end
$function$;

create or replace function {schema}._outbox_ended(ids uuid[], outcome integer) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  perform {schema}._outbox_join_ended(ids, outcome);
  if to_regclass('{schema}.job_run') is null then
    return;  -- somebody has removed the jobs: the outbox goes on
  end if;
  if exists (select from {schema}.job_run r where r.released_at is not null and r.ended_at is null) then
    perform {schema}._job_run_ended(ids, outcome);
  end if;
end
$function$;

create or replace function {schema}._outbox_revived(ids uuid[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if to_regclass('{schema}.job_run') is null then
    return;
  end if;
  update {schema}.job_run r set ended_at = null, failed = false
   where r.id = any (array(select e.id from {schema}.job_run e where e.id = any (ids) order by e.id for no key update));
end
$function$;
