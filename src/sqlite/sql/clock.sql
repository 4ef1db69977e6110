-- The database's clock, which is this machine's.

-- name: clock_lead
-- How far the newest times that are stored lie ahead of now (?1), in microseconds: a clock that was set back. Messages that
-- wait, messages that are done, and leases.
select max(newest.at) - ?1
  from (select max(created_at) as at from (select created_at from {schema}_outbox order by seq desc limit 100)
        union all
        select max(created_at) from (select created_at from {schema}_inbox order by seq desc limit 100)
        union all
        select max(created_at) from (select created_at from {schema}_timers order by seq desc limit 100)
        union all
        select max(processed_at) from {schema}_outbox where status = 1
        union all
        select max(renewed_at) from {schema}_lease) as newest;
