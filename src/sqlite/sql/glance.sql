-- Whether there is work in a database. Processes with many databases check it.

-- name: glance_any
-- returns: outbox boolean, inbox boolean, timers boolean, jobs integer, events integer
-- Whether there are messages and timers that are not finished (null: none), and how long until a
-- job is due, in microseconds from now (?1).
select (select 1 from {schema}_outbox where status = 0 limit 1) as outbox,
       (select 1 from {schema}_inbox where status = 0 limit 1) as inbox,
       (select 1 from {schema}_timers where status = 0 limit 1) as timers,
       (select min(wake_at) from {schema}_job where wake_at is not null) - ?1 as jobs,
       (select 0 from {schema}_event_subscription s
          join {schema}_event_subscription_part p on p.name = s.name
         where s.paused_at is null and p.stopped_at is null
           and p.position < (select seq from sqlite_sequence where name = '{schema}_event')
         limit 1) as events;

-- name: glance
-- returns: outbox integer, inbox integer, timers integer
-- The time until there is work, in microseconds from now (?1). It is zero or negative if there is
-- work now. Only messages of the topics ?2 (outbox) and ?3 (inbox), JSON arrays, count; null: all
-- topics. Messages of a paused topic do not count after a claim has parked them.
-- The query reads the first thousand waiting messages of each lane. If a lane has more, the next
-- message counts with any topic. For messages in progress, the end of the lease counts. The query
-- reads it for the first thousand messages of each lane, which have the oldest claims, and for all
-- streams.
with lanes(lane) as (values (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5),
                            (15), (16), (17), (18), (19), (20), (21), (22), (23), (24), (25)),
outbox_due(at) as (
  select (select min(at)
            from (select ready_at as at
                    from (select ready_at, topic from {schema}_outbox
                           where status = 0 and lane = lanes.lane and lease_until <= ?1
                           order by ready_at limit 1000)
                   where ?2 is null or topic in (select value from json_each(?2))
                  union all
                  select ready_at
                    from (select ready_at from {schema}_outbox
                           where status = 0 and lane = lanes.lane and lease_until <= ?1
                           order by ready_at limit 1 offset 1000)
                  union all
                  select lease_until
                    from (select lease_until, topic from {schema}_outbox
                           where status = 0 and lane = lanes.lane and ready_at <= ?1
                           order by ready_at limit 1000)
                   where lease_until > ?1
                     and (?2 is null or topic in (select value from json_each(?2)))))
    from lanes),
inbox_due(at) as (
  select (select min(at)
            from (select ready_at as at
                    from (select ready_at, topic from {schema}_inbox
                           where status = 0 and lane = lanes.lane and lease_until <= ?1
                           order by ready_at limit 1000)
                   where ?3 is null or topic in (select value from json_each(?3))
                  union all
                  select ready_at
                    from (select ready_at from {schema}_inbox
                           where status = 0 and lane = lanes.lane and lease_until <= ?1
                           order by ready_at limit 1 offset 1000)
                  union all
                  select lease_until
                    from (select lease_until, topic from {schema}_inbox
                           where status = 0 and lane = lanes.lane and ready_at <= ?1
                           order by ready_at limit 1000)
                   where lease_until > ?1
                     and (?3 is null or topic in (select value from json_each(?3)))))
    from lanes)
select (select min(at) from (select at from outbox_due
                             union all
                             select lease_until from {schema}_outbox_stream
                              where lease_until > 0)) - ?1 as outbox,
       (select min(at) from (select at from inbox_due
                             union all
                             select lease_until from {schema}_inbox_stream
                              where lease_until > 0)) - ?1 as inbox,
       (select min((select ready_at from {schema}_timers
                     where status = 0 and lane = lanes.lane and lease_until <= ?1
                     order by ready_at limit 1))
          from lanes) - ?1 as timers;
