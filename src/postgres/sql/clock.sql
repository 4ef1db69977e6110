-- The clock of the database.

-- name: clock_lead
-- How far the newest stored times are ahead of now, in microseconds. A positive result means that
-- the clock was set back. The statement reads waiting messages, done messages, and leases. Of the
-- waiting messages it reads the newest (they have the highest ids, which begin with their time),
-- and those of each priority that become ready next.
select (extract(epoch from greatest(
          (select max(n.created_at)
             from (select o.created_at from {schema}.outbox o order by o.id desc limit 100) n),
          (select max(n.created_at)
             from (select i.created_at from {schema}.inbox i order by i.id desc limit 100) n),
          (select max(n.created_at)
             from generate_series(-5, 5) as lanes(lane)
            cross join lateral (select o.created_at from {schema}.outbox o
                                 where o.lane = lanes.lane and o.ready_at > {schema}.clock()
                                 order by o.ready_at, o.id limit 100) n),
          (select max(n.created_at)
             from generate_series(-5, 5) as lanes(lane)
            cross join lateral (select i.created_at from {schema}.inbox i
                                 where i.lane = lanes.lane and i.ready_at > {schema}.clock()
                                 order by i.ready_at, i.id limit 100) n),
          (select max(n.created_at)
             from (select t.created_at from {schema}.timers t order by t.id desc limit 100) n),
          (select max(a.processed_at) from {schema}.outbox_archive a where a.status = 2),
          (select max(l.renewed_at) from {schema}.lease l)) - {schema}.clock()) * 1000000)::bigint;
