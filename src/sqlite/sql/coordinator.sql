-- The work coordinator. Times are microseconds since 1970. The store binds the current time.

-- name: work_process
-- returns here: live integer, rank integer
-- The live instances that claim the same topics of a queue as this one, and how many of them come
-- before it. ?3 is the path of the queue in the handlers.
select count(*) as live, coalesce(sum(instance_id < ?1), 0) as rank from {schema}_instance
 where stale_after is not null and heartbeat_at >= ?2 - stale_after
   and json_extract(handlers, ?3) = (select json_extract(handlers, ?3) from {schema}_instance
                                      where instance_id = ?1);

-- name: work_process_step_heartbeat
-- returns: heartbeat_at time, stale_after integer, handlers text
select heartbeat_at, stale_after, handlers from {schema}_instance where instance_id = ?1;

-- name: work_process_step_beat
insert into {schema}_instance (instance_id, host, pid, version, handlers, state, started_at,
                               heartbeat_at, stale_after)
values (?1, ?2, ?3, ?4, ?5, 'running', ?6, ?6, ?7)
on conflict (instance_id) do update
   set heartbeat_at = excluded.heartbeat_at, stale_after = excluded.stale_after,
       handlers = excluded.handlers;

-- name: work_process_step_stale
delete from {schema}_instance
 where stale_after is not null and heartbeat_at < ?2 - stale_after and instance_id <> ?1
returning instance_id;

-- name: work_process_step_closed
select 1 from {schema}_event_stream where key = ?1 and closed_at is not null;

-- name: work_leave
delete from {schema}_instance where instance_id = ?1 and stale_after is not null;
