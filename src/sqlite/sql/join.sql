-- Joins. Times are microseconds since 1970. The store binds the current time. A block named
-- <statement>_step_<name> is a step of that statement. SQLite has one writer, so the statements of
-- a transaction need no locks.

-- name: join_start
insert into {schema}_outbox_join (join_id, grouping_key, expected_steps, metadata, deadline,
                                  created_at, last_updated_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?6)
on conflict do nothing;

-- name: join_expect
-- For a join that this transaction has created.
update {schema}_outbox_join set expected_steps = ?2 where join_id = ?1;

-- name: join_grow
-- For a join that cannot end before this transaction does.
update {schema}_outbox_join set expected_steps = expected_steps + ?2 where join_id = ?1;

-- name: join_missing
select not exists (select 1 from {schema}_outbox_join where join_id = ?1);

-- name: join_attach
insert into {schema}_outbox_join_member (join_id, message_id, created_at) values (?1, ?2, ?3)
on conflict do nothing;

-- name: join_attach_step_state
-- The status of a stored message: 0 queued, 1 done, 3 failed.
select status from {schema}_outbox where id = ?1;

-- name: join_report
-- Whether the message is a step of the join.
select exists (select 1 from {schema}_outbox_join_member where join_id = ?1 and message_id = ?2);

-- name: join_report_step_installed
-- Whether the tables of joins exist. If they were removed, the outbox continues to work.
select exists (select 1 from sqlite_schema
                where type = 'table' and name = '{schema}_outbox_join_member');

-- name: join_report_step_any
select exists (select 1 from {schema}_outbox_join_member where status = 0);

-- name: join_report_step_joins
-- The joins that wait for a message.
select join_id from {schema}_outbox_join_member where message_id = ?1 and status = 0;

-- name: join_report_step_member
-- A step counts when the row of its member leaves pending, so a second call changes nothing.
update {schema}_outbox_join_member set status = ?3
  where join_id = ?1 and message_id = ?2 and status = 0;

-- name: join_report_step_join
-- One update per join for all of its steps: ?2 completed or ?3 failed ones, and at most as many as
-- are expected.
update {schema}_outbox_join
   set completed_steps = completed_steps + min(?2, expected_steps - completed_steps - failed_steps),
       failed_steps = failed_steps
                      + max(0, min(?3, expected_steps - completed_steps - failed_steps - ?2)),
       status = case when ?2 + ?3 < expected_steps - completed_steps - failed_steps then 0
                     when failed_steps > 0
                       or (?3 > 0 and ?2 < expected_steps - completed_steps - failed_steps) then 2
                     else 1 end,
       finished_at = case when ?2 + ?3 >= expected_steps - completed_steps - failed_steps
                          then ?4 end,
       last_updated_at = ?4,
       unlogged = ?2 + ?3 >= expected_steps - completed_steps - failed_steps
                  and not exists (select 1 from {schema}_outbox_join_waiter as w
                                   where w.join_id = ?1)
 where join_id = ?1 and status = 0
returning status;

-- name: join_report_step_wake
-- Makes the messages ready that wait for a join. A message in progress checks the join itself.
update {schema}_outbox set ready_at = ?2
 where id in (select message_id from {schema}_outbox_join_waiter where join_id = ?1)
   and status = 0 and lease_until < 0 and ready_at > ?2;

-- name: join_is_reported
-- Whether the step has this end. For a call that is repeated because its result was lost.
select exists (select 1 from {schema}_outbox_join_member
                where join_id = ?1 and message_id = ?2 and status = ?3);

-- name: join_is_cancelled
-- Whether the join is cancelled. For a call that is repeated because its result was lost.
select exists (select 1 from {schema}_outbox_join where join_id = ?1 and status = 3);

-- name: join_cancel
update {schema}_outbox_join set status = 3, finished_at = ?2, last_updated_at = ?2
  where join_id = ?1 and status = 0;

-- name: join_fail_overdue
select join_id from {schema}_outbox_join
 where finished_at is null and deadline is not null and deadline <= ?1 order by deadline limit ?2;

-- name: join_fail_overdue_step_one
update {schema}_outbox_join
   set status = 2, reason = 'the deadline passed', finished_at = ?2, last_updated_at = ?2,
       unlogged = not exists (select 1 from {schema}_outbox_join_waiter as w where w.join_id = ?1)
 where join_id = ?1 and status = 0;

-- name: join_await
insert into {schema}_outbox_join_waiter (join_id, message_id) values (?1, ?2)
  on conflict do nothing;

-- name: join_wait_step_look
-- Leases that expired before this check do not count against the message. A message may wait for a
-- join for any time.
update {schema}_outbox set attempts = 0, lost_leases = 0
  where id = ?1 and (attempts > 0 or lost_leases > 0);

-- name: join_wait_step_waits
select 1 from {schema}_outbox_join_waiter where message_id = ?1;

-- name: join_wait
-- The waiting message has seen the end of the join.
delete from {schema}_outbox_join_waiter where join_id = ?1 and message_id = ?2;

-- name: join_take_unlogged
-- returns: as join_find
select join_id, grouping_key, expected_steps, completed_steps, failed_steps, status, created_at,
       last_updated_at, finished_at, deadline, reason, metadata
  from {schema}_outbox_join where unlogged = 1 limit ?1;

-- name: join_take_unlogged_step_one
update {schema}_outbox_join set unlogged = 0 where join_id = ?1;

-- name: join_purge
-- returns here: join_id uuid, expected_steps integer
-- Joins whose waiting message has not been handled yet are kept.
select join_id, expected_steps from {schema}_outbox_join as j
 where finished_at < ?1
   and not exists (select 1 from {schema}_outbox_join_waiter as w
                     join {schema}_outbox as o on o.id = w.message_id and o.status = 0
                    where w.join_id = j.join_id)
 order by finished_at limit ?2;

-- name: join_purge_step_waiters
delete from {schema}_outbox_join_waiter where join_id = ?1;

-- name: join_purge_step_members
-- An explicit delete, because foreign keys are a setting of each connection.
delete from {schema}_outbox_join_member where join_id = ?1;

-- name: join_purge_step_join
delete from {schema}_outbox_join where join_id = ?1;

-- name: join_find
-- returns: join_id uuid, grouping_key text, expected_steps integer, completed_steps integer
-- returns: failed_steps integer, status integer, created_at time, last_updated_at time
-- returns: finished_at time
-- returns: deadline time, reason text, metadata text
select join_id, grouping_key, expected_steps, completed_steps, failed_steps, status, created_at,
       last_updated_at, finished_at, deadline, reason, metadata
  from {schema}_outbox_join where join_id = ?1;

-- name: join_list
-- returns: as join_find
select join_id, grouping_key, expected_steps, completed_steps, failed_steps, status, created_at,
       last_updated_at, finished_at, deadline, reason, metadata
  from {schema}_outbox_join
 where (?1 is null or status = ?1) and (?2 is null or created_at >= ?2)
   and (?3 is null or created_at < ?3)
   and (?4 is null or join_id > ?4)
 order by join_id limit ?5;

-- name: join_list_step_status
-- returns: as join_find
select join_id, grouping_key, expected_steps, completed_steps, failed_steps, status, created_at,
       last_updated_at, finished_at, deadline, reason, metadata
  from {schema}_outbox_join
 where status = ?1 and (?2 is null or created_at >= ?2) and (?3 is null or created_at < ?3)
   and (?4 is null or join_id > ?4)
 order by join_id limit ?5;

-- name: join_list_step_group
-- returns: as join_find
select join_id, grouping_key, expected_steps, completed_steps, failed_steps, status, created_at,
       last_updated_at, finished_at, deadline, reason, metadata
  from {schema}_outbox_join
 where (?1 is null or status = ?1) and (?2 is null or created_at >= ?2)
   and (?3 is null or created_at < ?3)
   and (?4 is null or join_id > ?4) and grouping_key = ?6
 order by join_id limit ?5;

-- name: join_joins_of
-- Each branch has its own index.
-- returns: join_id uuid
select join_id from {schema}_outbox_join_member where message_id = ?1 and status = 0
union all
select join_id from {schema}_outbox_join_member where message_id = ?1 and status <> 0
 limit ?2;

-- name: join_waiting
-- returns: message_id uuid
select message_id from {schema}_outbox_join_waiter where join_id = ?1 order by message_id limit ?2;

-- name: join_members
-- returns: message_id uuid, status integer, created_at time
select message_id, status, created_at from {schema}_outbox_join_member
 where join_id = ?1 and (?2 is null or message_id > ?2) order by message_id limit ?3;
