-- Cron jobs and their runs. The library computes the calendar: it sets the next time of a job
-- (next_due_at), and examines the job again at wake_at. The message of a run in the outbox has the
-- id of the run. Durations are milliseconds.

create table {schema}_job (
  id                  blob    not null primary key check (length(id) = 16),
  name                text    not null unique check (length(name) between 1 and 100),
  topic               text    not null,
  payload             text    not null,
  cron                text    not null,
  time_zone           text    not null,
  misfire             integer not null check (misfire between 0 and 2),  -- coalesce, all, skip
  misfire_limit       integer not null check (misfire_limit > 0),
  enabled             integer not null,
  max_concurrent_runs integer not null check (max_concurrent_runs >= 0),
  jitter              integer not null,
  created_at          integer not null,
  updated_at          integer not null,
  next_due_at         integer,
  wake_at             integer,
  last_error          text     -- why a scheduler could not plan it
) strict;

create index {schema}_job_wake on {schema}_job (wake_at) where wake_at is not null;

create table {schema}_job_run (
  id             blob    not null primary key check (length(id) = 16),
  job_id         blob    not null,
  job_name       text    not null,
  scheduled_time integer not null,
  triggered      integer not null,
  created_at     integer not null,
  released_at    integer,                    -- when its message entered the outbox
  started_at     integer,
  ended_at       integer,
  failed         integer not null default 0,
  output         text,
  last_error     text,
  unique (job_id, scheduled_time)
) strict;

create index {schema}_job_run_waiting on {schema}_job_run (job_id, scheduled_time)
  where released_at is null;
create index {schema}_job_run_active on {schema}_job_run (job_id)
  where released_at is not null and ended_at is null;
create index {schema}_job_run_ended on {schema}_job_run (ended_at) where ended_at is not null;
create index {schema}_job_run_name on {schema}_job_run (job_name, scheduled_time);

-- The last run is the latest one that has ended, or that has failed at least once and is retried.
-- So a job that always fails shows that before its message is a dead letter.
create view {schema}_jobs as
  select j.id, j.name, j.topic, j.payload, j.cron, j.time_zone,
         case j.misfire when 0 then 'coalesce' when 1 then 'all' else 'skip' end as misfire,
         j.misfire_limit, j.enabled, j.max_concurrent_runs, j.jitter, j.created_at, j.updated_at,
         j.next_due_at, r.scheduled_time as last_run_at,
         case when r.failed or (r.id is not null and r.ended_at is null) then 'failed'
              when r.id is not null then 'done' end as last_run_status,
         j.last_error
    from {schema}_job as j
    left join {schema}_job_run as r
      on r.id = (select l.id from {schema}_job_run as l where l.job_name = j.name
                     and (l.ended_at is not null or exists (
                            select 1 from {schema}_outbox as o
                             where o.id = l.id and o.status = 0 and o.attempts > 0))
                  order by l.scheduled_time desc limit 1);

-- A run is in progress while its message is leased.
create view {schema}_job_runs as
  select r.id, r.job_name as job, r.scheduled_time,
         case when r.failed then 'failed' when r.ended_at is not null then 'done'
              when o.status = 0 and o.lease_until > 0 then 'in_progress' else 'ready' end as status,
         r.triggered, r.created_at, r.started_at, r.ended_at, r.output,
         coalesce(o.last_error, r.last_error) as last_error, coalesce(o.attempts, 0) as attempts
    from {schema}_job_run as r
    left join {schema}_outbox as o on o.id = r.id;
