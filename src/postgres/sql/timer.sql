-- Timers. The statements of their queue are in queue.sql.

-- name: timer_cancel
select {schema}.timers_cancel($1::uuid);

-- name: timer_reschedule
select {schema}.timers_reschedule(id => $1::uuid, due_at => $2::timestamptz,
                                  delay => $3::bigint * interval '1 millisecond');

-- name: timer_any_known
select {schema}._timers_any_known($1::uuid[]);

-- name: schedule_next_due
-- returns: timers integer, jobs integer
-- The next due times of timers and of jobs, as distances from the current time of the database.
-- Negative: the time has passed.
select (extract(epoch from timers_due - {schema}.clock()) * 1000000)::bigint as timers,
       (extract(epoch from jobs_due - {schema}.clock()) * 1000000)::bigint as jobs
  from {schema}._schedule_next_due();

-- name: timer_backlog
select {schema}._timers_backlog($1::integer);

-- name: timer_list
-- returns: id uuid, topic text, correlation_id text, unique_key text, created_at time
-- returns: ready_at time
-- returns: due_at time, attempts integer, last_error text, leased boolean
-- The waiting timers, the next one first in each lane, in the order of the index.
select each.id, each.topic, each.correlation_id, each.unique_key, each.created_at, each.ready_at,
       each.due_at, each.attempts, each.last_error, each.leased
  from generate_series(-5, 5) as lanes(lane)
 cross join lateral (
         select t.id, t.topic::text, t.correlation_id::text, t.unique_key::text, t.created_at,
                t.ready_at, t.due_at::timestamptz, t.attempts, t.last_error,
                t.lease_until is not null as leased
           from {schema}.timers t
          where t.lane = lanes.lane
            and ($1::timestamptz is null or (t.ready_at, t.id) > ($1, $2::uuid))
            and ($3::text is null or t.topic = $3)
          order by t.ready_at, t.id limit $4::bigint) each
 order by each.ready_at, each.id limit $4::bigint;
