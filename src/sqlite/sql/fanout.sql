-- Fan-out on a schedule. Times are microseconds since 1970, durations are milliseconds. The store
-- binds the current time.

-- name: fanout_register
-- Keeps the cadence that an operator has set.
insert into {schema}_fanout_policy (topic, work_key, default_every, default_jitter, job, created_at,
                                    updated_at, settle)
values (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)
on conflict (topic, work_key) do update
   set default_every = excluded.default_every, default_jitter = excluded.default_jitter,
       job = excluded.job, updated_at = excluded.updated_at, settle = excluded.settle
 where (default_every, default_jitter, job, settle)
       is not (excluded.default_every, excluded.default_jitter, excluded.job, excluded.settle);

-- name: fanout_set_cadence
insert into {schema}_fanout_policy (topic, work_key, set_every, set_jitter, created_at, updated_at)
select ?1, ?2, ?3, ?4, ?5, ?5
 where exists (select 1 from {schema}_fanout_policy where topic = ?1 and work_key in (?2, ''))
on conflict (topic, work_key) do update
   set set_every = excluded.set_every, set_jitter = coalesce(excluded.set_jitter, set_jitter),
       updated_at = excluded.updated_at;

-- name: fanout_reset_cadence
update {schema}_fanout_policy set set_every = null, set_jitter = null, updated_at = ?3
  where topic = ?1 and work_key = ?2;

-- name: fanout_reset_cadence_step_unregistered
-- Deletes a row that only an operator has stored.
delete from {schema}_fanout_policy where topic = ?1 and work_key = ?2 and default_every is null;

-- name: fanout_remove
delete from {schema}_fanout_policy where topic = ?1 and work_key = ?2;

-- name: fanout_policies
-- returns: topic text, work_key text, every integer, jitter integer, default_every integer
-- returns: default_jitter integer, settle integer
-- returns: set_by_operator boolean, job text, created_at time, updated_at time
-- The policies of one topic (?1), or of all.
select topic, work_key, every, jitter, default_every, default_jitter, settle, set_by_operator, job,
       created_at, updated_at
  from {schema}_fanout_policies
 where ?1 is null or topic = ?1
 order by topic, work_key nulls first;

-- name: fanout_plan
-- returns here: work_key text, shard_key text, last_completed_at time, replaced_id uuid
-- returns here: settle integer
-- The slices that are due among the candidates (?2), a JSON array of [shard key, work key, spread].
-- The spread chooses the part of the jitter; it depends on the keys alone.
with candidate as materialized (
  select distinct value ->> 0 as shard_key, value ->> 1 as work_key, value ->> 2 as spread
    from json_each(?2)
),
awaited as (
  select c.shard_key, c.work_key, f.last_completed_at, f.message_id, f.enqueued_at,
         coalesce(p.set_every, p.default_every, a.set_every, a.default_every) * 1000
           + c.spread % (coalesce(p.set_jitter, p.default_jitter, a.set_jitter,
                                  a.default_jitter) * 1000 + 1) as wait,
         coalesce(p.settle, a.settle, 0) as settle
    from candidate as c
    left join {schema}_fanout_policy as p on p.topic = ?1 and p.work_key = c.work_key
    left join {schema}_fanout_policy as a on a.topic = ?1 and a.work_key = ''
    left join {schema}_fanout_cursor as f
      on f.topic = ?1 and f.work_key = c.work_key and f.shard_key = c.shard_key
)
select work_key, shard_key, last_completed_at, message_id as replaced_id, settle
  from awaited as w
 where wait is not null
   and (last_completed_at is null or last_completed_at + settle * 1000 + wait <= ?3)
   and (message_id is null
        or (enqueued_at + wait <= ?3
            and not exists (select 1 from {schema}_outbox as o
                             where o.id = w.message_id and o.status = 0)));

-- name: fanout_plan_step_take
insert into {schema}_fanout_cursor (topic, work_key, shard_key, created_at, updated_at, enqueued_at,
                                    message_id, replaced_id)
values (?1, ?2, ?3, ?4, ?4, ?4, ?5, ?6)
on conflict (topic, work_key, shard_key) do update
   set message_id = excluded.message_id, replaced_id = excluded.replaced_id,
       enqueued_at = excluded.enqueued_at, updated_at = excluded.updated_at;

-- name: fanout_last_completed
-- returns: last_completed_at time
select last_completed_at from {schema}_fanout_cursor
  where topic = ?1 and work_key = ?2 and shard_key = ?3;

-- name: fanout_mark_completed
update {schema}_fanout_cursor
   set last_completed_at = ?5, message_id = null, replaced_id = null, updated_at = ?6
 where topic = ?1 and work_key = ?2 and shard_key = ?3 and last_completed_at is ?4;

-- name: fanout_mark_completed_step_first
-- A slice that no round has enqueued.
insert into {schema}_fanout_cursor (topic, work_key, shard_key, created_at, updated_at,
                                    last_completed_at)
values (?1, ?2, ?3, ?5, ?5, ?4)
on conflict do nothing;

-- name: fanout_cursors
-- returns: topic text, work_key text, shard_key text, last_completed_at time, enqueued_at time
-- returns: message_id uuid
-- returns: status text, last_error text, created_at time, updated_at time
-- The cursors of a topic, of one work key (?2) or of all. The page begins after (?3, ?4).
select topic, work_key, shard_key, last_completed_at, enqueued_at, message_id, status, last_error,
       created_at, updated_at
  from {schema}_fanout_cursors
 where topic = ?1 and (?2 is null or work_key = ?2)
   and (?3 is null or (work_key, shard_key) > (?3, ?4))
 order by work_key, shard_key limit ?5;

-- name: fanout_purge_step_page
-- returns: work_key text, shard_key text
-- The last cursor of the page of ?5 cursors after (?3, ?4); no row when the page is not full.
select work_key, shard_key from {schema}_fanout_cursor
 where topic = ?1 and (?2 is null or work_key = ?2) and (work_key, shard_key) > (?3, ?4)
 order by work_key, shard_key limit 1 offset ?5 - 1;

-- name: fanout_purge
-- Deletes the cursors after (?3, ?4) and up to (?5, ?6) that have been due for ?7 microseconds at
-- the time ?8 and have no message. A null ?5: up to the last one.
delete from {schema}_fanout_cursor as f
 where f.topic = ?1 and (?2 is null or f.work_key = ?2) and (f.work_key, f.shard_key) > (?3, ?4)
   and (?5 is null or (f.work_key, f.shard_key) <= (?5, ?6))
   and max(coalesce(f.last_completed_at, 0), coalesce(f.enqueued_at, 0), f.created_at) + ?7
         + coalesce((select (p.every + p.jitter + p.settle) * 1000
                       from {schema}_fanout_policies as p
                      where p.topic = f.topic and (p.work_key = f.work_key or p.work_key is null)
                      order by p.work_key nulls last limit 1), 0) <= ?8
   and not exists (select 1 from {schema}_outbox as o
                    where o.id = f.message_id and o.status in (0, 3));
