-- Timers. The statements of their queue are in queue.sql.

-- name: timer_cancel
delete from {schema}_timers where id = ?1 and status = 0 and lease_until <= ?2;

-- name: timer_reschedule
update {schema}_timers set due_at = ?2, ready_at = max(?2, ?3), lease_until = -9000000000000000000
 where id = ?1 and status = 0 and lease_until <= ?3;

-- name: timer_any_known
select 1 from {schema}_outbox where id = ?1;

-- name: schedule_next_due
-- returns: timers integer, jobs integer
-- The next due times of timers and of jobs, as distances from now. Negative: the time has passed.
with lanes(lane) as (values (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5))
select min((select ready_at from {schema}_timers
             where status = 0 and lane = lanes.lane and lease_until <= ?1
             order by ready_at limit 1)) - ?1 as timers,
       (select min(wake_at) from {schema}_job where wake_at is not null) - ?1 as jobs
  from lanes;

-- name: schedule_next_due_step_watch
-- returns: timers_at time, jobs_at time
-- The same, as times.
with lanes(lane) as (values (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5))
select min((select ready_at from {schema}_timers
             where status = 0 and lane = lanes.lane and lease_until <= ?1
             order by ready_at limit 1)) as timers_at,
       (select min(wake_at) from {schema}_job where wake_at is not null) as jobs_at
  from lanes;

-- name: timer_backlog
-- The number of messages in the outbox that are due (?2) and wait for a worker, counted up to ?1.
with lanes(lane) as (values (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5))
select min(?1, sum((select count(*) from (select 1 from {schema}_outbox
                                           where status = 0 and lane = lanes.lane and ready_at <= ?2
                                             and lease_until <= ?2
                                           limit ?1))))
  from lanes;

-- name: timer_list
-- returns: id uuid, topic text, correlation_id text, unique_key text, created_at time
-- returns: ready_at time
-- returns: due_at time, attempts integer, last_error text, leased boolean
-- The waiting timers, the next one first.
select id, topic, correlation_id, unique_key, created_at, ready_at, due_at, attempts, last_error,
       lease_until > 0 as leased
  from {schema}_timers
 where status = 0 and lane > -100 and (?1 is null or (ready_at, id) > (?1, ?2))
   and (?3 is null or topic = ?3)
 order by ready_at, id limit ?4;
