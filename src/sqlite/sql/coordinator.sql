-- The work coordinator. Times are microseconds since 1970. The store binds the current time.

-- name: work_process
-- returns here: live integer, rank integer
-- The instances that share the work, and how many of them come before this one.
select count(*) as live, coalesce(sum(instance_id < ?1), 0) as rank from {schema}_instance
 where stale_after is not null and heartbeat_at >= ?2 - stale_after;

-- name: work_process_step_heartbeat
-- returns: heartbeat_at time, stale_after integer
select heartbeat_at, stale_after from {schema}_instance where instance_id = ?1;

-- name: work_process_step_beat
insert into {schema}_instance (instance_id, host, pid, version, handlers, state, started_at,
                               heartbeat_at, stale_after)
values (?1, ?2, ?3, ?4, ?5, 'running', ?6, ?6, ?7)
on conflict (instance_id) do update
   set heartbeat_at = excluded.heartbeat_at, stale_after = excluded.stale_after,
       handlers = case when ?8 then excluded.handlers else handlers end;

-- name: work_process_step_stale
delete from {schema}_instance
 where stale_after is not null and heartbeat_at < ?2 - stale_after and instance_id <> ?1
returning instance_id;

-- name: work_process_step_closed
select 1 from {schema}_event_stream where key = ?1 and closed_at is not null;

-- name: work_leave
delete from {schema}_instance where instance_id = ?1 and stale_after is not null;
