-- Instances: the processes that work on this database. Times are microseconds since 1970. The store
-- binds the current time.

-- name: instance_beat
-- Registers an instance, renews its heartbeat, or inserts its row again if it was deleted.
insert into {schema}_instance (instance_id, host, pid, version, handlers, state, started_at,
                               heartbeat_at)
values (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, ?8), ?8)
on conflict (instance_id) do update set heartbeat_at = excluded.heartbeat_at, state = excluded.state
returning started_at;

-- name: instance_remove
delete from {schema}_instance where instance_id = ?1;

-- name: instance_purge
delete from {schema}_instance
 where instance_id in (select instance_id from {schema}_instance where heartbeat_at < ?1 limit ?2);

-- name: instance_list
-- returns: instance_id uuid, host text, pid integer, version text, started_at time
-- returns: heartbeat_at time
-- returns: state text, stale boolean, handlers text
select instance_id, host, pid, version, started_at, heartbeat_at, state,
       heartbeat_at < ?2 - coalesce(stale_after, 90000000) as stale, handlers
  from {schema}_instance order by started_at, instance_id limit ?1;
