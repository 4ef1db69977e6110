-- Counts for gauges. Each statement reads a limited number of rows.

-- name: sample_joins
-- returns: status integer, joins integer
with states(status) as (values (0), (1), (2), (3))
select states.status, (select count(*)
                         from (select 1 from {schema}_outbox_join j
                                where j.status = states.status limit ?1)) as joins
  from states;

-- name: sample_jobs
-- returns: name text, ended_at time
-- The end of each job's last successful run, among its latest thousand runs.
select j.name, (select r.ended_at
                  from (select latest.ended_at, latest.failed from {schema}_job_run latest
                         where latest.job_id = j.id
                         order by latest.scheduled_time desc limit 1000) r
                 where r.ended_at is not null and r.failed = 0 limit 1) as ended_at
  from {schema}_job j order by j.name limit ?1;
