-- Timers; the statements of their queue are in queue.sql.

-- name: timer_cancel
select {schema}.timers_cancel($1::uuid);

-- name: timer_reschedule
select {schema}.timers_reschedule($1::uuid, $2::timestamptz);

-- name: timer_any_known
select {schema}._timers_any_known($1::uuid[]);

-- name: timer_list
-- Those that wait, the next one first; lane by lane, as the index has them.
select each.id, each.topic, each.correlation_id, each.unique_key, each.created_at, each.ready_at, each.due_at, each.attempts,
       each.last_error, each.leased
  from generate_series(-5, 5) as lanes(lane)
 cross join lateral (
         select t.id, t.topic::text, t.correlation_id::text, t.unique_key::text, t.created_at, t.ready_at,
                t.due_at::timestamptz, t.attempts, t.last_error, t.lease_until is not null as leased
           from {schema}.timers t
          where t.lane = lanes.lane and ($1::timestamptz is null or (t.ready_at, t.id) > ($1, $2::uuid))
            and ($3::text is null or t.topic = $3)
          order by t.ready_at, t.id limit $4::bigint) each
 order by each.ready_at, each.id limit $4::bigint;
