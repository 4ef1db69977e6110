-- Functions that change jobs. A job that is stored here has no next_due_at until a scheduler
-- examines it; a running scheduler does so at once. If the scheduler does not understand the cron
-- expression or the time zone, it writes last_error.

-- Creates or updates a job, and returns its id. If cron, time_zone and enabled stay the same, the
-- schedule continues, with its missed times. Otherwise it starts from now. enabled: null keeps the
-- present value.
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
    raise exception 'time_zone must have 1 to 64 characters'
      using errcode = 'invalid_parameter_value';
  elsif v_misfire is null then
    raise exception 'misfire must be coalesce, all or skip'
      using errcode = 'invalid_parameter_value';
  elsif misfire_limit is null or misfire_limit not between 1 and 1000 then
    raise exception 'misfire_limit must be 1 to 1000' using errcode = 'invalid_parameter_value';
  elsif max_concurrent_runs is null or max_concurrent_runs not between 0 and 10000 then
    raise exception 'max_concurrent_runs must be 0 to 10000'
      using errcode = 'invalid_parameter_value';
  elsif jitter is null or jitter not between interval '0' and interval '1 hour' then
    raise exception 'jitter must be zero to an hour' using errcode = 'invalid_parameter_value';
  end if;
  insert into {schema}.job (id, name, topic, payload, cron, time_zone, misfire, misfire_limit,
                            enabled, max_concurrent_runs, jitter, created_at, updated_at, wake_at)
  values (v_id, jobs_create_or_update.name, jobs_create_or_update.topic,
          jobs_create_or_update.payload, jobs_create_or_update.cron,
          jobs_create_or_update.time_zone, v_misfire, jobs_create_or_update.misfire_limit,
          coalesce(jobs_create_or_update.enabled, true), jobs_create_or_update.max_concurrent_runs,
          jobs_create_or_update.jitter, v_now, v_now, v_now)
  on conflict do nothing;
  if found then
    perform {schema}._wake('jobs');
    return v_id;
  end if;
  select j.* into v_job from {schema}.job j
    where j.name = jobs_create_or_update.name for no key update;
  if not found then
    raise exception 'job % is created and removed at the same time', name
      using errcode = 'lock_not_available';
  end if;
  v_enabled := coalesce(jobs_create_or_update.enabled, v_job.enabled);
  v_same := v_job.enabled = v_enabled and v_job.cron = jobs_create_or_update.cron
            and v_job.time_zone = jobs_create_or_update.time_zone;
  update {schema}.job j
     set topic = jobs_create_or_update.topic, payload = jobs_create_or_update.payload,
         cron = jobs_create_or_update.cron, time_zone = jobs_create_or_update.time_zone,
         misfire = v_misfire, misfire_limit = jobs_create_or_update.misfire_limit,
         enabled = v_enabled, max_concurrent_runs = jobs_create_or_update.max_concurrent_runs,
         jitter = jobs_create_or_update.jitter,
         -- A job that no scheduler has examined yet counts from the time when it got its schedule.
         updated_at = case when v_same and j.next_due_at is null then j.updated_at else v_now end,
         next_due_at = case when v_same then j.next_due_at end, wake_at = v_now, last_error = null
   where j.id = v_job.id;
  if not v_enabled then
    delete from {schema}.job_run r
      where r.job_id = v_job.id and r.released_at is null and not r.triggered;
  end if;
  perform {schema}._wake('jobs');
  return v_job.id;
end
$function$;
comment on function {schema}.jobs_create_or_update is
  'Creates a cron job or changes it; returns its id.';

-- Adds a run outside the schedule, also for a disabled job. Returns its id, or null if the job does
-- not exist.
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
  'Runs a job now, outside its schedule; returns the id of the run, or null without such a job.';

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
     set enabled = _job_set_enabled.enabled, next_due_at = null, updated_at = {schema}.clock(),
         wake_at = {schema}.clock()
   where j.id = v_job.id;
  if not _job_set_enabled.enabled then
    delete from {schema}.job_run r
      where r.job_id = v_job.id and r.released_at is null and not r.triggered;
  end if;
  perform {schema}._wake('jobs');
  return true;
end
$function$;

-- Enables the schedule of a job, from now on. Returns false if the job does not exist.
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

-- Disables the schedule of a job. Its waiting runs are cancelled. Returns false if the job does not
-- exist.
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

-- Internal. Deletes a job that the caller has locked, and its runs that no worker has begun, with
-- their messages. Each statement sees the rows that the statement before it has locked. A run in
-- progress keeps its row.
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
                              where r.job_id = _job_remove.job_id and r.released_at is not null
                                and r.ended_at is null))
     order by m.id for update skip locked);
  delete from {schema}.outbox m where m.id = any (v_messages) and m.lease_until is null;
  delete from {schema}.job_run r
   where r.job_id = _job_remove.job_id and r.ended_at is null
     and (r.released_at is null or not exists (select from {schema}.outbox o where o.id = r.id));
  delete from {schema}.job j where j.id = _job_remove.job_id;
end
$function$;

-- Removes a job and its runs that no worker has begun, with their messages. Returns false if the
-- job does not exist.
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
