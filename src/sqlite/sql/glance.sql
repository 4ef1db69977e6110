-- What there is to do in a database, in one statement: for processes that look at many databases.

-- name: glance
-- returns: outbox integer, inbox integer, timers integer, jobs integer
-- How long until there is something to do, in microseconds from now (?1); zero or negative when there is. Messages of paused
-- topics are left out once a claim has put them aside. Of messages in progress, the end of their leases counts: among the first
-- of each lane, where the oldest claims are.
with lanes(lane) as (values (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5)),
outbox_due(at) as (
  select (select ready_at from {schema}_outbox
           where status = 0 and lane = lanes.lane and lease_until <= ?1 order by ready_at limit 1)
    from lanes
  union all
  select (select min(lease_until)
            from (select lease_until from {schema}_outbox
                   where status = 0 and lane = lanes.lane and ready_at <= ?1 order by ready_at limit 1000)
           where lease_until > ?1)
    from lanes),
inbox_due(at) as (
  select (select ready_at from {schema}_inbox
           where status = 0 and lane = lanes.lane and lease_until <= ?1 order by ready_at limit 1)
    from lanes
  union all
  select (select min(lease_until)
            from (select lease_until from {schema}_inbox
                   where status = 0 and lane = lanes.lane and ready_at <= ?1 order by ready_at limit 1000)
           where lease_until > ?1)
    from lanes)
select (select min(at) from outbox_due) - ?1 as outbox,
       (select min(at) from inbox_due) - ?1 as inbox,
       (select min((select ready_at from {schema}_timers
                     where status = 0 and lane = lanes.lane and lease_until <= ?1 order by ready_at limit 1))
          from lanes) - ?1 as timers,
       (select min(wake_at) from {schema}_job where wake_at is not null) - ?1 as jobs;
