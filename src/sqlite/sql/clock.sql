-- The clock of the database, which is that of this machine.

-- name: clock_lead
-- How far the newest stored times are ahead of now (?1), in microseconds. A positive result means
-- that the clock was set back. The statement reads waiting messages, done messages, and leases. Of
-- the waiting messages it reads the newest, and those of each priority that become ready next: they
-- still tell of the step when newer messages have been stored.
with recursive lanes (lane) as (select -5 union all select lane + 1 from lanes where lane < 5)
select max(newest.at) - ?1
  from (select max(created_at) as at
          from (select created_at from {schema}_outbox order by seq desc limit 100)
        union all
        select max(created_at)
          from (select created_at from {schema}_inbox order by seq desc limit 100)
        union all
        select max((select max(created_at)
                      from (select created_at from {schema}_outbox
                             where status = 0 and lane = lanes.lane and ready_at > ?1
                             order by ready_at limit 100)))
          from lanes
        union all
        select max((select max(created_at)
                      from (select created_at from {schema}_inbox
                             where status = 0 and lane = lanes.lane and ready_at > ?1
                             order by ready_at limit 100)))
          from lanes
        union all
        select max(created_at)
          from (select created_at from {schema}_timers order by seq desc limit 100)
        union all
        select max(processed_at) from {schema}_outbox where status = 1
        union all
        select max(renewed_at) from {schema}_lease) as newest;
