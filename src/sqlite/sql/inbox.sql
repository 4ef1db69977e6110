-- The guard of the inbox. The statements of its queue are in queue.sql.

-- name: inbox_see
-- returns here: status integer, matches boolean, claim_epoch integer, attempts integer
-- returns here: lease_until time
-- returns here: owner_token uuid, item_id uuid, by_process boolean
insert into {schema}_inbox_guard (source, message_id, hash, first_seen_at, last_seen_at)
values (?1, ?2, ?3, ?4, ?4)
on conflict (source, message_id) do update
   set last_seen_at = max(last_seen_at, excluded.last_seen_at), sightings = sightings + ?5,
       hash = coalesce(hash, excluded.hash)
returning status, coalesce(hash = ?3, 1) as matches, claim_epoch, attempts, lease_until,
          owner_token, item_id, by_process;

-- name: inbox_try_begin
-- returns here: claim_epoch integer, attempts integer
update {schema}_inbox_guard
   set status = 1, owner_token = ?3, claim_epoch = claim_epoch + 1, attempts = attempts + 1,
       lease_until = ?4, by_process = ?5
 where source = ?1 and message_id = ?2
returning claim_epoch, attempts;

-- name: inbox_try_begin_step_give_up
update {schema}_inbox_guard
   set status = 3, processed_at = ?3, lease_until = null,
       last_error = 'the lease expired on the last attempt'
 where source = ?1 and message_id = ?2;

-- name: inbox_continue_try
-- The lease may have expired, unless another owner has begun since.
update {schema}_inbox_guard set lease_until = max(lease_until, ?6)
 where source = ?1 and message_id = ?2 and status = 1 and owner_token = ?4 and claim_epoch = ?5;

-- name: inbox_mark_processing
-- Returns the new status, or no row if nothing changed. After the last attempt (?5), the message is
-- dead when its lease has expired.
insert into {schema}_inbox_guard (source, message_id, first_seen_at, last_seen_at, status, attempts,
                                  claim_epoch, lease_until)
values (?1, ?2, ?3, ?3, 1, 1, 1, ?4)
on conflict (source, message_id) do update
   set status = iif(status = 1 and attempts >= ?5, 3, 1),
       attempts = iif(status = 1 and attempts >= ?5, attempts, attempts + 1),
       processed_at = iif(status = 1 and attempts >= ?5, ?3, processed_at),
       last_error = iif(status = 1 and attempts >= ?5, 'the lease expired on the last attempt',
                        last_error),
       lease_until = iif(status = 1 and attempts >= ?5, null, ?4),
       claim_epoch = claim_epoch + 1, owner_token = null, by_process = 0
 where status = 0
    or (status = 1 and (lease_until <= ?3 or (owner_token is null and attempts < ?5)))
returning status;

-- name: inbox_mark_processed
insert into {schema}_inbox_guard (source, message_id, first_seen_at, last_seen_at, status,
                                  processed_at)
values (?1, ?2, ?3, ?3, 2, ?3)
on conflict (source, message_id) do update
   set status = 2, processed_at = ?3, lease_until = null, owner_token = null
 where status in (0, 1) or (status = 3 and item_id is null);

-- name: inbox_mark_processed_step_begun
-- For the owner that began, while its lease is valid.
update {schema}_inbox_guard set status = 2, processed_at = ?3, lease_until = null
 where source = ?1 and message_id = ?2 and status = 1 and owner_token = ?4 and claim_epoch = ?5
   and lease_until > ?3;

-- name: inbox_mark_dead
insert into {schema}_inbox_guard (source, message_id, first_seen_at, last_seen_at, status,
                                  processed_at, last_error)
values (?1, ?2, ?3, ?3, 3, ?3, ?4)
on conflict (source, message_id) do update
   set status = 3, processed_at = ?3, lease_until = null, owner_token = null,
       last_error = coalesce(?4, last_error)
 where status in (0, 1);

-- name: inbox_mark_dead_step_begun
update {schema}_inbox_guard
   set status = 3, processed_at = ?3, lease_until = null, last_error = coalesce(?6, last_error)
 where source = ?1 and message_id = ?2 and status = 1 and owner_token = ?4 and claim_epoch = ?5
   and lease_until > ?3;

-- name: inbox_is_marked
-- Whether the message has this status, set by this owner. For a call that is repeated because its
-- result was lost.
select exists (select 1 from {schema}_inbox_guard
                where source = ?1 and message_id = ?2 and status = ?3
                  and (?4 is null or (owner_token = ?4 and claim_epoch = ?5)));

-- name: inbox_release
update {schema}_inbox_guard
   set status = 0, lease_until = null, last_error = coalesce(?6, last_error),
       attempts = attempts - (?7 = 0)
 where source = ?1 and message_id = ?2 and status = 1 and owner_token = ?4 and claim_epoch = ?5
   and lease_until > ?3;

-- name: inbox_renew_ticket
update {schema}_inbox_guard set lease_until = max(lease_until, ?6)
 where source = ?1 and message_id = ?2 and status = 1 and owner_token = ?4 and claim_epoch = ?5
   and lease_until > ?3
returning lease_until;

-- name: inbox_receive
update {schema}_inbox_guard set status = 4, item_id = ?3, lease_until = null, owner_token = null
 where source = ?1 and message_id = ?2;

-- name: inbox_receive_step_ended
update {schema}_inbox_guard set status = ?2, processed_at = ?3 where item_id = ?1;

-- name: inbox_fail_stored
-- For a message without a stream that no worker holds.
update {schema}_inbox set status = 3, processed_at = ?2, last_error = ?3
 where id = ?1 and status = 0;

-- name: inbox_replay_dead_letters
-- returns here: source text, message_id text, item_id uuid
-- The dead messages to replay, also those whose dead letter was purged.
select g.source, g.message_id, q.id as item_id
  from {schema}_inbox_guard as g
  left join {schema}_inbox as q on q.id = g.item_id
 where g.status = 3 and (?1 is null or g.source = ?1) and (?2 is null or g.message_id = ?2)
   and (?3 is null or q.topic = ?3)
   and (?4 is null or g.processed_at >= ?4) and (?5 is null or g.processed_at < ?5)
   and (q.id is null or q.status = 3)
 order by g.source, g.message_id limit ?6;

-- name: inbox_replay_dead_letters_step_one
update {schema}_inbox_guard
   set status = 0, attempts = 0, processed_at = null, item_id = null,
       last_error = coalesce(?3, last_error)
 where source = ?1 and message_id = ?2;

-- name: inbox_replay_dead_letters_step_postpone
update {schema}_inbox set ready_at = ready_at + ?2, last_error = coalesce(?3, last_error)
  where id = ?1;

-- name: inbox_replay_dead_letters_step_queued
update {schema}_inbox_guard set status = 4, processed_at = null where item_id = ?1;

-- name: inbox_purge_dead_letters
-- returns here: as inbox_replay_dead_letters
select g.source, g.message_id, g.item_id
  from {schema}_inbox_guard as g
  left join {schema}_inbox as q on q.id = g.item_id
 where g.status = 3 and (?1 is null or g.source = ?1) and (?2 is null or g.message_id = ?2)
   and (?3 is null or q.topic = ?3)
   and (?4 is null or g.processed_at >= ?4) and (?5 is null or g.processed_at < ?5)
 order by g.source, g.message_id limit ?6;

-- name: inbox_purge_dead_letters_step_one
delete from {schema}_inbox_guard where source = ?1 and message_id = ?2;

-- name: inbox_purge_old
delete from {schema}_inbox_guard
 where rowid in (select rowid from {schema}_inbox_guard
                  where status = 2 and processed_at < ?1 order by processed_at limit ?2);

-- name: inbox_purge_old_step_dead
-- Dead letters of the queue are kept.
delete from {schema}_inbox_guard
 where rowid in (select g.rowid from {schema}_inbox_guard as g
                  where g.status = 3 and g.processed_at < ?1
                    and (g.item_id is null
                         or not exists (select 1 from {schema}_inbox as q where q.id = g.item_id))
                  order by g.processed_at limit ?2);

-- name: inbox_purge_old_step_open
delete from {schema}_inbox_guard
 where rowid in (select rowid from {schema}_inbox_guard
                  where status in (0, 1) and first_seen_at < ?1 and last_seen_at < ?1
                    and (lease_until is null or lease_until < ?1)
                  order by first_seen_at limit ?2);

-- name: inbox_guard_find
-- returns: source text, message_id text, hash bytes, status text, first_seen_at time
-- returns: last_seen_at time
-- returns: processed_at time, sightings integer, attempts integer, last_error text, topic text
-- returns: item_id uuid
-- returns: lease_until time
select source, message_id, hash, status, first_seen_at, last_seen_at, processed_at, sightings,
       attempts, last_error, topic, item_id, lease_until
  from {schema}_inbox_seen where source = ?1 and message_id = ?2;

-- name: inbox_list_dead_letters
-- returns: as inbox_guard_find
select source, message_id, hash, status, first_seen_at, last_seen_at, processed_at, sightings,
       attempts, last_error, topic, item_id, lease_until
  from {schema}_inbox_seen
 where (source, message_id) in (
         select g.source, g.message_id
           from {schema}_inbox_guard as g
           left join {schema}_inbox as q on q.id = g.item_id
          where g.status = 3 and (?1 is null or g.source = ?1) and (?2 is null or g.message_id = ?2)
            and (?3 is null or q.topic = ?3) and (?4 is null or g.processed_at >= ?4)
            and (?5 is null or g.processed_at < ?5)
            and (?6 is null or (g.source, g.message_id) > (?6, ?7))
          order by g.source, g.message_id limit ?8)
 order by source, message_id;

-- name: inbox_list_stuck
-- returns: as inbox_guard_find
-- Messages in progress whose lease expired before ?1.
select source, message_id, hash, status, first_seen_at, last_seen_at, processed_at, sightings,
       attempts, last_error, topic, item_id, lease_until
  from {schema}_inbox_seen
 where (source, message_id) in (
         select source, message_id from {schema}_inbox_guard
          where status = 1 and lease_until < ?1 order by lease_until limit ?2)
 order by lease_until, source, message_id;

-- name: inbox_guard_counts
-- returns: seen integer, processing integer, overdue integer, processed integer
-- returns: dead_letters integer
-- Counts up to ?1.
select (select count(*) from (select 1 from {schema}_inbox_guard
                               where status in (0, 1) and status = 0 limit ?1)) as seen,
       (select count(*) from (select 1 from {schema}_inbox_guard
                               where status = 1 limit ?1)) as processing,
       (select count(*) from (select 1 from {schema}_inbox_guard
                               where status = 1 and lease_until < ?2 limit ?1)) as overdue,
       (select count(*) from (select 1 from {schema}_inbox_guard
                               where status = 2 limit ?1)) as processed,
       (select count(*) from (select 1 from {schema}_inbox_guard
                               where status = 3 limit ?1)) as dead_letters;
