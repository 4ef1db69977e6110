-- The hooks of job runs, and the next due time.

-- A hook of the outbox; see queue_hook. Ends the runs whose messages have ended. If a job has
-- waiting runs, a scheduler examines it at once. The jobs are locked first, and read by later
-- statements. A transaction that adds a waiting run holds the lock of the job. So either it sees
-- this end, or this function sees its run.
create function {schema}._job_run_ended(ids uuid[], outcome integer) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_jobs uuid[] := array(select distinct r.job_id from {schema}.job_run r
                          where r.id = any (ids) and r.ended_at is null);
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

-- A hook of the outbox; see queue_hook. Locks the jobs and the runs that will end.
create function {schema}._job_run_lock_ends(ids uuid[], wait boolean) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_jobs uuid[] := array(select distinct r.job_id from {schema}.job_run r
                          where r.id = any (ids) and r.ended_at is null);
  v_locked uuid[];
begin
  if v_jobs = '{}' then
    return ids;
  elsif wait then
    perform from {schema}.job j where j.id = any (v_jobs) order by j.id for no key update;
    perform from {schema}.job_run r where r.id = any (ids) order by r.id for no key update;
    return ids;
  end if;
  v_locked := array(select j.id from {schema}.job j where j.id = any (v_jobs)
                     order by j.id for no key update skip locked);
  v_locked := array(select r.id from {schema}.job_run r
                     where r.id = any (ids) and (r.job_id = any (v_locked) or not exists (
                             select from {schema}.job j where j.id = r.job_id))
                     order by r.id for no key update skip locked);
  return array(select u.id from unnest(ids) as u(id)
                where u.id = any (v_locked) or not exists (
                        select from {schema}.job_run r where r.id = u.id and r.ended_at is null));
end
$function$;

-- Internal. Returns the times when a scheduler has to act: for timers that no processor holds, and
-- for jobs. Both in one round trip.
create function {schema}._schedule_next_due(out timers_due timestamptz, out jobs_due timestamptz)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_now timestamptz := {schema}.clock();
begin
  timers_due := (
    select min(next.ready_at)
      from generate_series(-5, 5) as lanes(lane)
     cross join lateral (select t.ready_at from {schema}.timers t
                          where t.lane = lanes.lane
                            and (t.lease_until is null or t.lease_until <= v_now)
                          order by t.ready_at, t.id limit 1) next);
  jobs_due := (select min(j.wake_at) from {schema}.job j where j.wake_at is not null);
end
$function$;

-- A hook of the outbox; see queue_hook. Reopens the runs whose messages are replayed.
create function {schema}._job_run_replayed(ids uuid[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  update {schema}.job_run r set ended_at = null, failed = false
   where r.id = any (array(select e.id from {schema}.job_run e where e.id = any (ids)
                            order by e.id for no key update));
end
$function$;

do $block$
begin
  perform {schema}._queue_add_hook('outbox', 'job_run', 'job_run',
    'exists (select from {schema}.job_run r '
    'where r.released_at is not null and r.ended_at is null)');
end
$block$;
