-- Messages of the outbox. Times are microseconds since 1970; the time that decides is bound by the store, from the
-- one clock of this machine. A block named <statement>_step_<name> is a step of that statement.

-- name: outbox_enqueue
-- Without a row in the answer the message was not stored: its id or its unique key is there already.
insert into {schema}_outbox (id, topic, payload, correlation_id, due_at, ready_at, created_at, headers, expires_at, lane,
                             priority, unique_key)
select ?1, ?2, ?3, ?4, ?5, max(coalesce(?5, ?10), ?10), ?10, ?6, ?7, ?8, ?8, ?9
 where not exists (select 1 from {schema}_outbox_archive where id = ?1)
on conflict do nothing
returning 1;

-- name: outbox_enqueue_step_existing
-- The message that is there instead.
select id from {schema}_outbox where id = ?1
union all
select id from {schema}_outbox_archive where id = ?1
union all
select id from {schema}_outbox where unique_key = ?2
 limit 1;

-- name: outbox_enqueue_many
-- For ids that were drawn for this very call, and no unique keys: nothing to look up.
insert into {schema}_outbox (id, topic, payload, correlation_id, due_at, ready_at, created_at, headers, expires_at, lane,
                             priority)
values (?1, ?2, ?3, ?4, ?5, max(coalesce(?5, ?9), ?9), ?9, ?6, ?7, ?8, ?8);

-- name: outbox_claim
-- One lane's messages that are due. What turns out to be expired or of a paused topic is taken out again by the store.
update {schema}_outbox
   set owner_token = ?1, claim_epoch = claim_epoch + 1, lease_until = ?5
 where seq in (select seq from {schema}_outbox
                where lane = ?2 and lease_until is null and ready_at <= ?4
                order by ready_at, seq limit ?3)
returning id, topic, payload, correlation_id, headers, created_at, due_at, expires_at, priority, attempts, claim_epoch,
          lease_until, ready_at, seq, lost_leases;

-- name: outbox_claim_step_next_lane
select max(lane) from {schema}_outbox where lane < ?1 and lane > -100 and lease_until is null;

-- name: outbox_claim_step_park
update {schema}_outbox set lane = -100, owner_token = null, lease_until = null where seq = ?1;

-- name: outbox_ack_step_claimed
-- The row of a claim: this owner's, of this epoch, within its lease. All that a claim may do begins with it.
select seq, attempts from {schema}_outbox where id = ?2 and claim_epoch = ?3 and owner_token = ?1 and lease_until > ?4;

-- name: outbox_ack_step_keep
insert into {schema}_outbox_archive (id, status, processed_at, processed_by, claim_epoch, attempts, past_attempts, priority,
                                     created_at, due_at, expires_at, topic, correlation_id, unique_key, headers, last_error,
                                     payload)
select id, 2, ?2, owner_token, claim_epoch, attempts, past_attempts, priority, created_at, due_at, expires_at, topic,
       correlation_id, unique_key, headers, last_error, payload
  from {schema}_outbox where seq = ?1;

-- name: outbox_ack
-- Finished: it leaves the queue.
delete from {schema}_outbox where seq = ?1;

-- name: outbox_abandon
update {schema}_outbox
   set owner_token = null, lease_until = null, attempts = attempts + 1, lost_leases = 0, ready_at = ?2,
       last_error = coalesce(?3, last_error)
 where seq = ?1;

-- name: outbox_fail
insert into {schema}_outbox_archive (id, status, processed_at, processed_by, claim_epoch, attempts, past_attempts, priority,
                                     created_at, due_at, expires_at, topic, correlation_id, unique_key, headers, last_error,
                                     payload)
select id, 3, ?2, ?5, claim_epoch, attempts + ?3, past_attempts, priority, created_at, due_at, expires_at, topic,
       correlation_id, unique_key, headers, coalesce(?4, last_error), payload
  from {schema}_outbox where seq = ?1;

-- name: outbox_snooze
update {schema}_outbox set owner_token = null, lease_until = null, ready_at = coalesce(?2, ready_at) where seq = ?1;

-- name: outbox_renew
update {schema}_outbox set lease_until = ?2 where seq = ?1;

-- name: outbox_reap_expired
select seq, attempts from {schema}_outbox where lease_until <= ?1 order by lease_until limit ?2;

-- name: outbox_reap_expired_step_release
update {schema}_outbox
   set owner_token = null, lease_until = null, attempts = attempts + 1, lost_leases = min(lost_leases + 1, 1000)
 where seq = ?1;

-- name: outbox_next_due
-- As a distance from now.
with lanes(lane) as (values (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5))
select min((select min(ready_at) from {schema}_outbox
             where lane = lanes.lane and lease_until is null and ready_at > ?1 and ready_at < ?1 + 86400000000)) - ?1
  from lanes;

-- name: outbox_clock
select ?1;

-- name: outbox_counts
select (select count(*) from (select 1 from {schema}_outbox
                               where lease_until is null and lane > -100 and ready_at <= ?2 limit ?1)),
       (select count(*) from (select 1 from {schema}_outbox
                               where lease_until is null and lane > -100 and ready_at > ?2 limit ?1)),
       (select count(*) from (select 1 from {schema}_outbox where lease_until is not null limit ?1)),
       (select count(*) from (select 1 from {schema}_outbox_archive where status = 2 limit ?1)),
       (select count(*) from (select 1 from {schema}_outbox_archive where status = 3 limit ?1)),
       (select count(*) from (select 1 from {schema}_outbox where lane = -100 limit ?1)),
       (select ?2 - min(ready_at) from {schema}_outbox where lease_until is null and lane > -100 and ready_at <= ?2);

-- name: outbox_find
select id, topic, payload, correlation_id, headers, created_at, due_time_utc, expires_at, priority, retry_count,
       claim_epoch, status, processed_at, processed_by, last_error, past_attempts, unique_key, next_attempt_at
  from {schema}_outbox_messages where id = ?1;

-- name: outbox_dead_letters
select id, topic, null, correlation_id, headers, created_at, due_at, expires_at, priority, attempts, claim_epoch, status,
       processed_at, processed_by, last_error, past_attempts, unique_key, null
  from {schema}_outbox_archive
 where status = 3 and (?1 is null or topic = ?1) and (?2 is null or processed_at >= ?2) and (?3 is null or processed_at < ?3)
   and (?4 is null or id > ?4)
 order by id limit ?5;

-- name: outbox_replay
-- One message, or (without an id) the next ones that the filter leaves; not those whose unique key is taken.
insert into {schema}_outbox (id, ready_at, created_at, claim_epoch, due_at, past_attempts, lane, priority, topic,
                             correlation_id, unique_key, headers, last_error, payload)
select id, ?6, created_at, claim_epoch, due_at, past_attempts + attempts, priority, priority, topic, correlation_id,
       unique_key, headers, last_error, payload
  from {schema}_outbox_archive as a
 where status = 3 and (?1 is null or id = ?1) and (?2 is null or topic = ?2) and (?3 is null or processed_at >= ?3)
   and (?4 is null or processed_at < ?4)
   and (unique_key is null or not exists (select 1 from {schema}_outbox as o where o.unique_key = a.unique_key))
 order by id limit ?5
on conflict do nothing
returning id;

-- name: outbox_replay_step_forget
delete from {schema}_outbox_archive where id = ?1 and status = 3;

-- name: outbox_purge_failed
delete from {schema}_outbox_archive
 where seq in (select seq from {schema}_outbox_archive
                where status = 3 and (?1 is null or id = ?1) and (?2 is null or topic = ?2)
                  and (?3 is null or processed_at >= ?3) and (?4 is null or processed_at < ?4)
                order by id limit ?5);

-- name: outbox_purge_done
delete from {schema}_outbox_archive
 where seq in (select seq from {schema}_outbox_archive where status = 2 and processed_at < ?1 order by processed_at limit ?2);

-- name: outbox_pause
insert into {schema}_outbox_paused (topic, paused_at) values (?1, ?2) on conflict do nothing;

-- name: outbox_resume
delete from {schema}_outbox_paused where topic = ?1;

-- name: outbox_unpark
-- Of one topic, or (without) of all that are not paused.
with recursive parked(topic) as (
  select min(topic) from {schema}_outbox where lane = -100
  union all
  select (select min(topic) from {schema}_outbox as o where o.lane = -100 and o.topic > parked.topic)
    from parked where topic is not null
)
update {schema}_outbox set lane = priority
 where seq in (select seq from {schema}_outbox
                where lane = -100
                  and topic in (select topic from parked
                                 where topic is not null and (?1 is null or topic = ?1)
                                   and topic not in (select topic from {schema}_outbox_paused))
                limit ?2);

-- name: outbox_paused
select topic, paused_at from {schema}_outbox_paused order by topic;
