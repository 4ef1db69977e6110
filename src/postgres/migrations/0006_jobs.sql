-- Cron jobs and their runs. The calendar is the library's: it says when a job is due next (next_due_at), and looks at it again
-- at wake_at. Jobs that plain SQL has stored have no next_due_at until then. A run's message in the outbox has the run's id.

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
comment on view {schema}.jobs is
  'Cron jobs, with the time when they are due next and the result of their last run.';
create view {schema}.job_runs as
  select r.id, r.job_name as job, r.scheduled_time,
         case when r.failed then 'failed' when r.ended_at is not null then 'done'
              when o.lease_until is not null then 'in_progress' else 'ready' end as status,
         r.triggered, r.created_at, r.started_at, r.ended_at, r.output, coalesce(o.last_error, r.last_error) as last_error,
         coalesce(o.attempts, a.attempts, 0) as attempts
    from {schema}.job_run r
    left join {schema}.outbox o on o.id = r.id
    left join {schema}.outbox_archive a on a.id = r.id;

-- A hook of the outbox; see queue_hook. Ends the runs whose messages have ended. A job that has runs waiting is looked at again at once. The jobs are locked first, and then
comment on view {schema}.job_runs is
  'Runs of cron jobs; the message of a run has its id.';
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
    perform {schema}._wake('jobs');
  end if;
end
$function$;

-- A hook of the outbox; see queue_hook. Locks the jobs and the runs that end.
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

-- When a scheduler has to do something: for timers that no processor holds, and for jobs. One round trip for both.
create function {schema}._schedule_next_due(out timers_due timestamptz, out jobs_due timestamptz)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_now timestamptz := {schema}.clock();
begin
  timers_due := (
    select min(next.ready_at)
      from generate_series(-5, 5) as lanes(lane)
     cross join lateral (select t.ready_at from {schema}.timers t
                          where t.lane = lanes.lane and (t.lease_until is null or t.lease_until <= v_now)
                          order by t.ready_at, t.id limit 1) next);
  jobs_due := (select min(j.wake_at) from {schema}.job j where j.wake_at is not null);
end
$function$;

-- A hook of the outbox; see queue_hook.
create function {schema}._job_run_replayed(ids uuid[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  update {schema}.job_run r set ended_at = null, failed = false
   where r.id = any (array(select e.id from {schema}.job_run e where e.id = any (ids) order by e.id for no key update));
end
$function$;

do $block$
begin
  perform {schema}._queue_add_hook('outbox', 'job_run', 'job_run',
    'exists (select from {schema}.job_run r where r.released_at is not null and r.ended_at is null)');
end
$block$;

-- Changing jobs. The calendar is the library's: a job that is stored here has no next_due_at until a scheduler looks at it,
-- which is at once when one is started. A cron expression or a time zone that no scheduler understands is in last_error then.

-- Creates a job or changes it; answers its id. With the same cron, time_zone and enabled the schedule goes on as it was, also
-- with times that were missed; else it counts from now on. enabled: null leaves it as it is.
create function {schema}.jobs_create_or_update(
  name                text,
  topic               text,
  cron                text,
  payload             text     default '',
  time_zone           text     default 'UTC',
  misfire             text     default 'coalesce',
  misfire_limit       integer  default 10,
  enabled             boolean  default null,
  max_concurrent_runs integer  default 1,
  jitter              interval default interval '0'
) returns uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_misfire integer := array_position(array['coalesce', 'all', 'skip'], misfire) - 1;
  v_job {schema}.job;
  v_id uuid := {schema}.uuid_v7();
  v_enabled boolean;
  v_same boolean;
begin
  perform {schema}._queue_check(topic, payload, null, null, 0, null);
  if name is null or char_length(name) not between 1 and 100 then
    raise exception 'name must have 1 to 100 characters' using errcode = 'invalid_parameter_value';
  elsif cron is null or char_length(cron) not between 1 and 255 then
    raise exception 'cron must have 1 to 255 characters' using errcode = 'invalid_parameter_value';
  elsif time_zone is null or char_length(time_zone) not between 1 and 64 then
    raise exception 'time_zone must have 1 to 64 characters' using errcode = 'invalid_parameter_value';
  elsif v_misfire is null then
    raise exception 'misfire must be coalesce, all or skip' using errcode = 'invalid_parameter_value';
  elsif misfire_limit is null or misfire_limit not between 1 and 1000 then
    raise exception 'misfire_limit must be 1 to 1000' using errcode = 'invalid_parameter_value';
  elsif max_concurrent_runs is null or max_concurrent_runs not between 0 and 10000 then
    raise exception 'max_concurrent_runs must be 0 to 10000' using errcode = 'invalid_parameter_value';
  elsif jitter is null or jitter not between interval '0' and interval '1 hour' then
    raise exception 'jitter must be zero to an hour' using errcode = 'invalid_parameter_value';
  end if;
  insert into {schema}.job (id, name, topic, payload, cron, time_zone, misfire, misfire_limit, enabled,
                            max_concurrent_runs, jitter, created_at, updated_at, wake_at)
  values (v_id, jobs_create_or_update.name, jobs_create_or_update.topic, jobs_create_or_update.payload,
          jobs_create_or_update.cron, jobs_create_or_update.time_zone, v_misfire, jobs_create_or_update.misfire_limit,
          coalesce(jobs_create_or_update.enabled, true), jobs_create_or_update.max_concurrent_runs,
          jobs_create_or_update.jitter, v_now, v_now, v_now)
  on conflict do nothing;
  if found then
    perform {schema}._wake('jobs');
    return v_id;
  end if;
  select j.* into v_job from {schema}.job j where j.name = jobs_create_or_update.name for no key update;
  if not found then
    raise exception 'job % is created and removed at the same time', name using errcode = 'lock_not_available';
  end if;
  v_enabled := coalesce(jobs_create_or_update.enabled, v_job.enabled);
  v_same := v_job.enabled = v_enabled and v_job.cron = jobs_create_or_update.cron
            and v_job.time_zone = jobs_create_or_update.time_zone;
  update {schema}.job j
     set topic = jobs_create_or_update.topic, payload = jobs_create_or_update.payload, cron = jobs_create_or_update.cron,
         time_zone = jobs_create_or_update.time_zone, misfire = v_misfire,
         misfire_limit = jobs_create_or_update.misfire_limit, enabled = v_enabled,
         max_concurrent_runs = jobs_create_or_update.max_concurrent_runs, jitter = jobs_create_or_update.jitter,
         -- A job that no scheduler has looked at yet counts from when it got its schedule.
         updated_at = case when v_same and j.next_due_at is null then j.updated_at else v_now end,
         next_due_at = case when v_same then j.next_due_at end, wake_at = v_now, last_error = null
   where j.id = v_job.id;
  if not v_enabled then
    delete from {schema}.job_run r where r.job_id = v_job.id and r.released_at is null and not r.triggered;
  end if;
  perform {schema}._wake('jobs');
  return v_job.id;
end
$function$;
comment on function {schema}.jobs_create_or_update is
  'Creates a cron job or changes it; returns its id.';

-- Adds a run beside the schedule, also of a disabled job; answers its id, or null when there is no such job.
create function {schema}.jobs_trigger(name text) returns uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_job uuid;
  v_id uuid := {schema}.uuid_v7();
  v_time timestamptz;
begin
  select j.id into v_job from {schema}.job j where j.name = jobs_trigger.name for no key update;
  if not found then
    return null;
  end if;
  v_time := {schema}.clock();
  loop
    insert into {schema}.job_run (id, job_id, job_name, scheduled_time, triggered, created_at)
    values (v_id, v_job, jobs_trigger.name, v_time, true, {schema}.clock())
    on conflict (job_id, scheduled_time) do nothing;
    exit when found;
    v_time := v_time + interval '1 microsecond';  -- two in one microsecond are two runs
  end loop;
  update {schema}.job j set wake_at = {schema}.clock() where j.id = v_job;
  perform {schema}._wake('jobs');
  return v_id;
end
$function$;
comment on function {schema}.jobs_trigger is
  'Runs a job now, beside its schedule; returns the id of the run, or null when there is no such job.';

create function {schema}._job_set_enabled(name text, enabled boolean) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_job {schema}.job;
begin
  select j.* into v_job from {schema}.job j where j.name = _job_set_enabled.name for no key update;
  if not found then
    return false;
  elsif v_job.enabled = _job_set_enabled.enabled then
    return true;
  end if;
  update {schema}.job j
     set enabled = _job_set_enabled.enabled, next_due_at = null, updated_at = {schema}.clock(), wake_at = {schema}.clock()
   where j.id = v_job.id;
  if not _job_set_enabled.enabled then
    delete from {schema}.job_run r where r.job_id = v_job.id and r.released_at is null and not r.triggered;
  end if;
  perform {schema}._wake('jobs');
  return true;
end
$function$;

-- Lets a job run by its schedule, from now on; false when there is no such job.
create function {schema}.jobs_enable(name text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return {schema}._job_set_enabled(name, true);
end
$function$;
comment on function {schema}.jobs_enable is
  'Lets a job run by its schedule; returns false when there is no such job.';

-- No more runs by its schedule, also none of those that wait for their turn; false when there is no such job.
create function {schema}.jobs_disable(name text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return {schema}._job_set_enabled(name, false);
end
$function$;
comment on function {schema}.jobs_disable is
  'Stops the schedule of a job; returns false when there is no such job.';

-- Deletes a job that the caller has locked, and its runs that nobody has begun, with their messages. Each statement sees what
-- the one before it has locked. A run that is under way keeps its row.
create function {schema}._job_remove(job_id uuid) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_messages uuid[];
begin
  v_messages := array(
    select m.id from {schema}.outbox m
     where m.lease_until is null
       and m.id = any (array(select r.id from {schema}.job_run r
                              where r.job_id = _job_remove.job_id and r.released_at is not null and r.ended_at is null))
     order by m.id for update skip locked);
  delete from {schema}.outbox m where m.id = any (v_messages) and m.lease_until is null;
  delete from {schema}.job_run r
   where r.job_id = _job_remove.job_id and r.ended_at is null
     and (r.released_at is null or not exists (select from {schema}.outbox o where o.id = r.id));
  delete from {schema}.job j where j.id = _job_remove.job_id;
end
$function$;

-- Removes a job and its runs that nobody has begun, with their messages; false when there is no such job.
create function {schema}.jobs_remove(name text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_job uuid;
begin
  select j.id into v_job from {schema}.job j where j.name = jobs_remove.name for no key update;
  if not found then
    return false;
  end if;
  perform {schema}._job_remove(v_job);
  return true;
end
$function$;
comment on function {schema}.jobs_remove is
  'Removes a job and its runs that have not begun; returns false when there is no such job.';
