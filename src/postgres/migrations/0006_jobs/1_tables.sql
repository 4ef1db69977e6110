-- Cron jobs and their runs. The library computes the calendar: it sets the next time of a job
-- (next_due_at), and examines the job again at wake_at. A job that was stored with plain SQL has no
-- next_due_at until then. The message of a run in the outbox has the id of the run.

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
  constraint job_limits check (char_length(name) between 1 and 100 and misfire between 0 and 2
                               and misfire_limit > 0
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
create index job_run_active on {schema}.job_run (job_id)
  where released_at is not null and ended_at is null;
create index job_run_ended on {schema}.job_run (ended_at) where ended_at is not null;
create index job_run_name on {schema}.job_run (job_name, scheduled_time);

-- The last run is the latest one that has ended, or that has failed at least once and is retried.
-- So a job that always fails shows that before its message is a dead letter.
create view {schema}.jobs as
  select j.id, j.name, j.topic::text, j.payload, j.cron, j.time_zone,
         (array['coalesce', 'all', 'skip'])[j.misfire + 1] as misfire, j.misfire_limit, j.enabled,
         j.max_concurrent_runs, j.jitter, j.created_at, j.updated_at, j.next_due_at,
         last.scheduled_time as last_run_at,
         case when last.failed then 'failed'
              when last.scheduled_time is not null then 'done' end as last_run_status,
         j.last_error
    from {schema}.job j
    left join lateral (select r.scheduled_time, r.failed or r.ended_at is null as failed
                         from {schema}.job_run r
                        where r.job_name = j.name
                          and (r.ended_at is not null or exists (
                                 select from {schema}.outbox o
                                   where o.id = r.id and o.attempts > 0))
                        order by r.scheduled_time desc limit 1) last on true;
comment on view {schema}.jobs is
  'Cron jobs, with the time when they are due next and the result of their last run.';

-- A run is in progress while its message is leased.
create view {schema}.job_runs as
  select r.id, r.job_name as job, r.scheduled_time,
         case when r.failed then 'failed' when r.ended_at is not null then 'done'
              when o.lease_until is not null then 'in_progress' else 'ready' end as status,
         r.triggered, r.created_at, r.started_at, r.ended_at, r.output,
         coalesce(o.last_error, r.last_error) as last_error,
         coalesce(o.attempts, a.attempts, 0) as attempts
    from {schema}.job_run r
    left join {schema}.outbox o on o.id = r.id
    left join {schema}.outbox_archive a on a.id = r.id;
comment on view {schema}.job_runs is
  'Runs of cron jobs; the message of a run has its id.';
