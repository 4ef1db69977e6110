-- The audit, and replays of dead letters in the background. The stores bind the current time.

-- name: audit_record
insert into {schema}_audit (actor, action, target, detail, count, result, at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: audit_list
-- returns: id integer, at time, actor text, action text, target text, detail text, count integer
-- returns: result text
select id, at, actor, action, target, detail, count, result from {schema}_audit
 where id < coalesce(?1, 9223372036854775807) order by id desc limit ?2;

-- name: audit_purge
delete from {schema}_audit
 where id in (select id from {schema}_audit where at < ?1 order by at limit ?2);

-- name: replay_add
insert into {schema}_replay (id, kind, queue, actor, topic, failed_after, failed_before, error,
                             most, rate, started_at, updated_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)
returning started_at;

-- name: replay_advance
update {schema}_replay set examined = examined + ?2, changed = changed + ?3, updated_at = ?4
 where id = ?1 and state = 'running';

-- name: replay_finish
update {schema}_replay
   set state = ?2, failure = nullif(?3, ''), updated_at = ?4, finished_at = ?4
 where id = ?1 and state = 'running';

-- name: replay_find
-- returns: id uuid, kind text, state text, queue text, actor text, topic text, failed_after time
-- returns: failed_before time, error text, most integer, rate integer, examined integer
-- returns: changed integer, started_at time, updated_at time, finished_at time, failure text
-- ?2: replays that have not reported since are interrupted.
select id, kind,
       case when state = 'running' and updated_at < ?2 then 'interrupted' else state end as state,
       queue, actor, topic, failed_after, failed_before, error, most, rate, examined, changed,
       started_at, updated_at, finished_at, failure
  from {schema}_replay where id = ?1;

-- name: replay_list
-- returns: as replay_find
-- ?1: begins behind this id; absent: at the newest. ?2: as in replay_find.
select id, kind,
       case when state = 'running' and updated_at < ?2 then 'interrupted' else state end as state,
       queue, actor, topic, failed_after, failed_before, error, most, rate, examined, changed,
       started_at, updated_at, finished_at, failure
  from {schema}_replay
 where id < coalesce(?1, x'ffffffffffffffffffffffffffffffffff') order by id desc limit ?3;

-- name: replay_purge
delete from {schema}_replay
 where id in (select id from {schema}_replay where updated_at < ?1 order by id limit ?2);
