-- Subscriptions. Times are microseconds since 1970. The store binds the current time. A block named
-- <statement>_step_<name> is a step of that statement. The position of an event is its number.

-- name: subscription_create
insert into {schema}_event_subscription (name, parts, types, prefixes, on_failure, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6) on conflict (name) do nothing;

-- name: subscription_create_step_part
insert into {schema}_event_subscription_part (name, part, position, epoch, attempts, moved_at)
values (?1, ?2, ?3, ?4, 0, ?5);

-- name: subscription_create_step_change
update {schema}_event_subscription set types = ?2, prefixes = ?3, on_failure = ?4 where name = ?1;

-- name: subscription_create_step_find
-- returns here: parts integer, next_parts integer, drain_to integer
select parts, next_parts, drain_to from {schema}_event_subscription where name = ?1;

-- name: subscription_create_step_drain
-- The parts finish at the highest position of any of them. Null: they continue.
update {schema}_event_subscription
   set next_parts = ?2, changes = changes + 1,
       drain_to = case when ?2 is not null then (select max(position)
                                                   from {schema}_event_subscription_part
                                                  where name = ?1) end
 where name = ?1;

-- name: subscription_create_step_fence
update {schema}_event_subscription_part
   set epoch = epoch + 1, owner_token = null, lease_until = null where name = ?1;

-- name: subscription_acquire
-- returns: epoch integer, position integer, parts integer, drain_to integer, attempts integer
-- returns: retry_in integer, changes integer
update {schema}_event_subscription_part as p
   set owner_token = ?3, epoch = p.epoch + 1, lease_until = ?5
  from {schema}_event_subscription s
 where p.name = ?1 and p.part = ?2 and s.name = p.name and s.paused_at is null
   and p.stopped_at is null
   and (p.lease_until is null or p.lease_until <= ?4 or p.owner_token = ?3)
returning epoch, position,
          (select parts from {schema}_event_subscription where name = ?1) as parts,
          (select drain_to from {schema}_event_subscription where name = ?1) as drain_to, attempts,
          retry_at - ?4 as retry_in,
          (select changes from {schema}_event_subscription where name = ?1) as changes;

-- name: subscription_acquire_step_drained
-- returns here: epoch integer, undrained integer
-- The highest epoch, and the number of parts that have not reached the position ?2.
select max(epoch) as epoch, count(*) filter (where position <> ?2) as undrained
  from {schema}_event_subscription_part where name = ?1;

-- name: subscription_acquire_step_clear
delete from {schema}_event_subscription_part where name = ?1;

-- name: subscription_acquire_step_divided
update {schema}_event_subscription set parts = next_parts, next_parts = null, drain_to = null
 where name = ?1;

-- name: subscription_renew
update {schema}_event_subscription_part set lease_until = max(lease_until, ?4)
 where name = ?1 and part = ?2 and epoch = ?3 and owner_token is not null;

-- name: subscription_release
update {schema}_event_subscription_part set owner_token = null, lease_until = null
 where name = ?1 and part = ?2 and epoch = ?3;

-- name: subscription_advance
update {schema}_event_subscription_part
   set position = ?5, attempts = 0, retry_at = null, last_error = null, moved_at = ?6
 where name = ?1 and part = ?2 and epoch = ?3 and position = ?4 and owner_token is not null;

-- name: subscription_fail
update {schema}_event_subscription_part
   set attempts = attempts + 1, last_error = ?4, retry_at = ?5,
       stopped_at = case when ?6 then ?7 end,
       lease_until = case when not ?6 then lease_until end,
       owner_token = case when not ?6 then owner_token end
 where name = ?1 and part = ?2 and epoch = ?3 and owner_token is not null
returning attempts;

-- name: subscription_park
insert into {schema}_event_parked (name, position, version, stream_no, attempts, kind, stream,
                                   error, parked_at)
select ?1, e.no, e.version, e.stream, ?3, ?4, e.key, ?5, ?6 from {schema}_event e where e.no = ?2
on conflict (name, position) do nothing;

-- name: subscription_park_step_attempts
select attempts from {schema}_event_subscription_part where name = ?1 and part = ?2;

-- name: subscription_move_parked
update {schema}_event_parked set version = ?3 + 1 where name = ?1 and position = ?2;

-- name: subscription_move_parked_step_done
delete from {schema}_event_parked where name = ?1 and position = ?2;

-- name: subscription_move_parked_step_held
select 1 from {schema}_event_subscription_part
 where name = ?1 and part = ?2 and epoch = ?3 and owner_token is not null;

-- name: subscription_fail_parked
update {schema}_event_parked
   set resumed_at = null, attempts = attempts + 1, error = ?4,
       position = case when exists (select 1 from {schema}_event_parked
                                     where name = ?1 and position = ?3) then position else ?3 end
 where name = ?1 and position = ?2 and resumed_at is not null;

-- name: subscription_parked
-- returns: position integer, stream text, version integer, kind text, attempts integer, error text
-- returns: parked_at time, resumed_at time
select position, stream, version, kind, attempts, error, parked_at, resumed_at
  from {schema}_event_parked where name = ?1 and stream_no % ?2 = ?3 order by position;

-- name: subscription_list
-- returns: name text, parts integer, next_parts integer, types text, prefixes text
-- returns: on_failure text, created_at time, paused_at time, position integer, head integer
-- returns: lag integer, lag_time integer, stopped_at time, attempts integer, last_error text
-- returns: held_parts integer, parked integer
-- One subscription (?1), or all. types and prefixes are JSON arrays. ?2 is the current time.
with head(head) as (
  select coalesce((select seq from sqlite_sequence where name = '{schema}_event'), 0)),
part as (
  select name, min(position) as position, max(stopped_at) as stopped_at,
         max(attempts) as attempts, max(last_error) as last_error,
         count(*) filter (where lease_until > ?2) as held_parts
    from {schema}_event_subscription_part group by name)
select s.name, s.parts, s.next_parts, s.types, s.prefixes, s.on_failure, s.created_at, s.paused_at,
       p.position, head, max(head - p.position, 0) as lag,
       ?2 - (select at from {schema}_event e where e.no > p.position order by e.no limit 1)
         as lag_time,
       p.stopped_at, p.attempts, p.last_error, p.held_parts,
       (select count(*) from {schema}_event_parked k
         where k.name = s.name and k.kind <> 'skipped') as parked
  from {schema}_event_subscription s join part p on p.name = s.name, head
 where ?1 is null or s.name = ?1
 order by s.name;

-- name: subscription_changes
-- returns here: name text, changes integer
select name, changes from {schema}_event_subscription;

-- name: subscription_changes_step_count
update {schema}_event_subscription set changes = changes + 1 where name = ?1;

-- name: subscription_parts
-- returns: part integer, position integer, epoch integer, owner_token uuid, lease_until time
-- returns: attempts integer, retry_at time, stopped_at time, last_error text, moved_at time
select part, position, epoch, owner_token, lease_until, attempts, retry_at, stopped_at, last_error,
       moved_at
  from {schema}_event_subscription_part where name = ?1 order by part;

-- name: subscription_pause
update {schema}_event_subscription set paused_at = ?2 where name = ?1 and paused_at is null;

-- name: subscription_resume
update {schema}_event_subscription set paused_at = null where name = ?1 and paused_at is not null;

-- name: subscription_resume_step_parts
update {schema}_event_subscription_part set stopped_at = null, retry_at = null
 where name = ?1 and (stopped_at is not null or retry_at is not null);

-- name: subscription_resume_parked
update {schema}_event_parked set resumed_at = ?3
 where name = ?1 and kind <> 'skipped' and resumed_at is null and (?2 is null or stream = ?2);

-- name: subscription_skip
-- An event that the subscription has not reached yet, or that waits in a parked stream.
insert into {schema}_event_parked (name, position, version, stream_no, attempts, kind, stream,
                                   error, parked_at)
select s.name, e.no, e.version, e.stream, 0, 'skipped', e.key, 'skipped', ?3
  from {schema}_event e join {schema}_event_subscription s on s.name = ?1
 where e.no = ?2
   and (?2 > (select p.position from {schema}_event_subscription_part p
               where p.name = s.name and p.part = e.stream % s.parts)
        or exists (select 1 from {schema}_event_parked k
                    where k.name = s.name and k.kind = 'stream' and k.stream_no = e.stream
                      and k.version <= e.version))
on conflict (name, position) do nothing;

-- name: subscription_skip_step_stream
update {schema}_event_parked set resumed_at = ?3, version = version + 1
 where name = ?1 and position = ?2 and kind = 'stream';

-- name: subscription_skip_step_event
update {schema}_event_parked set kind = 'skipped', resumed_at = null
 where name = ?1 and position = ?2 and kind = 'event';

-- name: subscription_rebuild
update {schema}_event_subscription_part
   set position = ?2, epoch = epoch + 1, owner_token = null, lease_until = null, attempts = 0,
       retry_at = null, stopped_at = null, last_error = null, moved_at = ?3
 where name = ?1;

-- name: subscription_rebuild_step_drain
update {schema}_event_subscription set drain_to = ?2 where name = ?1 and next_parts is not null;

-- name: subscription_rebuild_step_parked
delete from {schema}_event_parked where name = ?1;

-- name: subscription_remove
delete from {schema}_event_subscription where name = ?1;
