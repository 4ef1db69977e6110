-- The clock of the database, which is that of this machine.

-- name: clock_lead
-- How far the newest stored times are ahead of now (?1), in microseconds. A positive result means
-- that the clock was set back. The statement reads waiting messages, done messages, and leases.
select max(newest.at) - ?1
  from (select max(created_at) as at
          from (select created_at from {schema}_outbox order by seq desc limit 100)
        union all
        select max(created_at)
          from (select created_at from {schema}_inbox order by seq desc limit 100)
        union all
        select max(created_at)
          from (select created_at from {schema}_timers order by seq desc limit 100)
        union all
        select max(processed_at) from {schema}_outbox where status = 1
        union all
        select max(renewed_at) from {schema}_lease) as newest;
