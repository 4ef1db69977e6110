-- Instances: the processes that work on this database.

-- name: instance_beat
-- Registers an instance, renews its heartbeat, or inserts its row again if it was deleted.
insert into {schema}.instance as i (instance_id, host, pid, version, handlers, state, started_at,
                                    heartbeat_at)
values ($1::uuid, $2::text, $3::bigint, $4::text, $5::jsonb, $6::text,
        coalesce($7::timestamptz, {schema}.clock()), {schema}.clock())
on conflict (instance_id) do update set heartbeat_at = excluded.heartbeat_at, state = excluded.state
returning i.started_at;

-- name: instance_remove
delete from {schema}.instance where instance_id = $1::uuid;

-- name: instance_purge
delete from {schema}.instance i
 where i.ctid = any (array(select o.ctid from {schema}.instance o
                            where o.heartbeat_at < {schema}.clock()
                                                    - $1::bigint * interval '1 microsecond'
                            limit $2::integer for update skip locked));

-- name: instance_list
-- returns: instance_id uuid, host text, pid integer, version text, started_at time
-- returns: heartbeat_at time
-- returns: state text, stale boolean, handlers text
select instance_id, host, pid, version, started_at, heartbeat_at, state, stale, handlers::text
  from {schema}.instances order by started_at, instance_id limit $1::bigint;
