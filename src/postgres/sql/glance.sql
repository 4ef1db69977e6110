-- Whether there is work in a database. Processes with many databases check it.
--
-- Each check of an idle database opens a connection without cached plans. So the first statement is
-- simple, and the second one is sent only if the first one finds work.

-- name: glance_any
-- returns: outbox boolean, inbox boolean, timers boolean, jobs integer, events integer
-- Whether there are messages and timers that are not finished (null: none), and how long until a
-- job is due, in microseconds. The order by makes PostgreSQL use an index on large tables, also if
-- most of their row versions are dead.
select coalesce((select true from {schema}.outbox where lane is not null
                  order by lane, ready_at, id limit 1),
                (select true from {schema}.outbox_stream where owner_token is not null
                  order by lease_until limit 1)) as outbox,
       coalesce((select true from {schema}.inbox where lane is not null
                  order by lane, ready_at, id limit 1),
                (select true from {schema}.inbox_stream where owner_token is not null
                  order by lease_until limit 1)) as inbox,
       (select true from {schema}.timers where lane is not null
         order by lane, ready_at, id limit 1) as timers,
       (extract(epoch from (select min(wake_at) from {schema}.job where wake_at is not null)
                             - {schema}.clock()) * 1000000)::bigint as jobs,
       (select 0::bigint from {schema}.event_feed_state f, {schema}.event_no q
         where exists (select from {schema}.event_subscription s
                         join {schema}.event_subscription_part p on p.name = s.name
                        where s.paused_at is null and p.stopped_at is null
                          and (p.position < f.head or q.is_called and q.last_value > f.low)))
         as events;

-- name: glance
-- returns: outbox integer, inbox integer, timers integer
-- The time until there is work, in microseconds. It is zero or negative if there is work now. Only
-- messages of the topics $1 (outbox) and $2 (inbox) count; null: all topics. Messages of a paused
-- topic do not count after a claim has parked them.
-- The query reads the first thousand waiting messages of each lane. If a lane has more, the next
-- message counts with any topic. For messages in progress, the end of the lease counts. The query
-- reads it for the first thousand messages of each lane, which have the oldest claims, and for all
-- streams. The clock is volatile, so it is read once.
with now as materialized (select {schema}.clock() as at),
lanes as (select generate_series(-5, 25) as lane),
outbox_due as (
  select min(next.at) as at
    from lanes cross join now cross join lateral (
           select least(min(f.ready_at) filter (where f.taken),
                        case when count(*) = 1000 then max(f.ready_at) end) as at
             from (select o.ready_at, $1::text[] is null or o.topic = any ($1::text[]) as taken
                     from {schema}.outbox o
                    where o.lane = lanes.lane and (o.lease_until is null or o.lease_until <= now.at)
                    order by o.ready_at, o.id limit 1000) f
           union all
           select min(h.lease_until)
             from (select o.lease_until, $1::text[] is null or o.topic = any ($1::text[]) as taken
                     from {schema}.outbox o
                    where o.lane = lanes.lane and o.ready_at <= now.at
                    order by o.ready_at, o.id limit 1000) h
            where h.taken and h.lease_until > now.at) next),
inbox_due as (
  select min(next.at) as at
    from lanes cross join now cross join lateral (
           select least(min(f.ready_at) filter (where f.taken),
                        case when count(*) = 1000 then max(f.ready_at) end) as at
             from (select i.ready_at, $2::text[] is null or i.topic = any ($2::text[]) as taken
                     from {schema}.inbox i
                    where i.lane = lanes.lane and (i.lease_until is null or i.lease_until <= now.at)
                    order by i.ready_at, i.id limit 1000) f
           union all
           select min(h.lease_until)
             from (select i.lease_until, $2::text[] is null or i.topic = any ($2::text[]) as taken
                     from {schema}.inbox i
                    where i.lane = lanes.lane and i.ready_at <= now.at
                    order by i.ready_at, i.id limit 1000) h
            where h.taken and h.lease_until > now.at) next)
select (extract(epoch from least((select at from outbox_due),
                                 (select min(lease_until) from {schema}.outbox_stream
                                   where owner_token is not null))
                             - now.at) * 1000000)::bigint as outbox,
       (extract(epoch from least((select at from inbox_due),
                                 (select min(lease_until) from {schema}.inbox_stream
                                   where owner_token is not null))
                             - now.at) * 1000000)::bigint as inbox,
       (extract(epoch from (select timers_due from {schema}._schedule_next_due()) - now.at)
          * 1000000)::bigint as timers
  from now;
