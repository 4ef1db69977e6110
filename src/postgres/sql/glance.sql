-- What there is to do in a database, in one statement: for processes that look at many databases.

-- name: glance
-- returns: outbox integer, inbox integer, timers integer, jobs integer
-- How long until there is something to do, in microseconds from the database's now; zero or negative when there is. Messages
-- of paused topics are left out once a claim has put them aside. Of messages in progress, the end of their leases counts: among
-- the first of each lane, where the oldest claims are. Leases are not read when a message is due.
-- The clock is volatile: it is read once, so that it is a condition of the index, and the same for all.
with now as materialized (select {schema}.clock() as at),
lanes as (select generate_series(-5, 5) as lane),
outbox_ready as materialized (
  select min(next.at) as at
    from lanes cross join lateral (
           select o.ready_at as at from {schema}.outbox o
            where o.lane = lanes.lane and (o.lease_until is null or o.lease_until <= (select at from now))
            order by o.ready_at, o.id limit 1) next),
outbox_expiry as (
  select min(next.at) as at
    from lanes cross join lateral (
           select min(h.lease_until) as at
             from (select o.lease_until from {schema}.outbox o
                    where o.lane = lanes.lane and o.ready_at <= (select at from now)
                    order by o.ready_at, o.id limit 1000) h
            where h.lease_until > (select at from now)) next
   where coalesce((select at from outbox_ready) > (select at from now), true)),
inbox_ready as materialized (
  select min(next.at) as at
    from lanes cross join lateral (
           select i.ready_at as at from {schema}.inbox i
            where i.lane = lanes.lane and (i.lease_until is null or i.lease_until <= (select at from now))
            order by i.ready_at, i.id limit 1) next),
inbox_expiry as (
  select min(next.at) as at
    from lanes cross join lateral (
           select min(h.lease_until) as at
             from (select i.lease_until from {schema}.inbox i
                    where i.lane = lanes.lane and i.ready_at <= (select at from now)
                    order by i.ready_at, i.id limit 1000) h
            where h.lease_until > (select at from now)) next
   where coalesce((select at from inbox_ready) > (select at from now), true))
select (extract(epoch from least((select at from outbox_ready), (select at from outbox_expiry)) - now.at) * 1000000)::bigint as outbox,
       (extract(epoch from least((select at from inbox_ready), (select at from inbox_expiry)) - now.at) * 1000000)::bigint as inbox,
       (extract(epoch from schedule.timers_due - now.at) * 1000000)::bigint as timers,
       (extract(epoch from schedule.jobs_due - now.at) * 1000000)::bigint as jobs
  from now, {schema}._schedule_next_due() as schedule;
