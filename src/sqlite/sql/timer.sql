-- Timers; the statements of their queue are in queue.sql.

-- name: timer_cancel
delete from {schema}_timers where id = ?1 and status = 0 and lease_until <= ?2;

-- name: timer_reschedule
update {schema}_timers set due_at = ?2, ready_at = max(?2, ?3), lease_until = -9000000000000000000
 where id = ?1 and status = 0 and lease_until <= ?3;

-- name: timer_any_known
select 1 from {schema}_outbox where id = ?1;

-- name: timer_list
-- Those that wait, the next one first.
select id, topic, correlation_id, unique_key, created_at, ready_at, due_at, attempts, last_error, lease_until > 0
  from {schema}_timers
 where status = 0 and lane > -100 and (?1 is null or (ready_at, id) > (?1, ?2)) and (?3 is null or topic = ?3)
 order by ready_at, id limit ?4;
